// Everything that the page says, in both languages, and the texts that it begins with.

const TEXTS = {
  en: {
    models: "Models", views: "Views", skip: "Skip to the form", light: "Light", dark: "Dark",
    ask: "Ask", asking: "Asking", copy: "Copy link", copied: "Copied", keys: "or Ctrl + Enter", link: "The link is in the address bar",
    speed: "{0} ms", queue: "{0} in the queue", loading: "loading", "not loaded": "loads when asked",
    nothing: "No models are served.", unreachable: "The server cannot be reached.",
    locked: "Token", "locked-note": "This server answers to those who have its token. It is kept in this tab, until you close it.", token: "Token", open: "Open", "wrong-token": "That is not the server’s token.",
    "task-classify": "Tells which label a text has.", "task-regress": "Gives a text a number.", "task-tag": "Marks names and other things in a text.",
    "task-qa": "Finds the answer to a question in a passage.", "task-choice": "Chooses how a text goes on.",
    "task-embed": "Turns texts into vectors: alike in meaning, near each other.", "task-fill-mask": "Guesses words that are hidden.", "task-generate": "Writes on from a beginning.", "task-rewrite": "Makes one text of another: a translation, a summary, an answer.", "task-other": "Answers as it was trained to.",
    predict: "Predict", classify: "Classify", regress: "Score", tag: "Tag", qa: "Answer", choice: "Choose", fill: "Fill in", write: "Write on", rewrite: "Rewrite", given: "Given", written: "Written", similarity: "Similarity", senses: "Senses", attention: "Attention", nearest: "Nearest words", analogy: "Analogy", map: "Map",
    "nearest-words": "A word, or several", "nearest-to": "Nearest to “{0}”", "analogy-a": "This", "analogy-b": "is to this", "analogy-c": "as this", "analogy-of": "“{0}” is to “{1}” as “{2}” is to:",
    "map-words": "Words, one a line", "map-note": "Of all directions, the two in which these words differ most.", "unknown-words": "Not known: {0}", beside: "The same in {0}",
    text: "Text", beginning: "Beginning", "one-a-line": "{0}, one a line",
    "part-text": "Text", "part-pair": "Second text", "part-question": "Question", "part-context": "Passage", "part-premise": "Beginning", "part-endings": "Endings",
    sentences: "Sentences, one a line", word: "Word", tokens: "Tokens at most", temperature: "Each token", likeliest: "the likeliest", tame: "drawn, tamer", "as-it-is": "drawn as it is", layer: "Layer", head: "Head", second: "Second text",
    probabilities: "Probabilities", labels: "Labels: {0}", knows: "It knows: {0}.", none: "none", cut: "The text is longer than the model reads; a part of it was left out.",
    why: "What “{0}” hung on", "why-note": "Shaded words speak for the label, underlined ones against it. Choose another label above to see its words.",
    "ended-end": "The model ended the text after {0} tokens.", "ended-length": "{0} tokens, as many as were asked for.", "ended-full": "{0} tokens; the model reads no more.", "ended-stop": "A stop string came after {0} tokens.",
    "no-tags": "Nothing was found.", "no-answer": "The passage does not say.", alternatives: "Other answers",
    "hide-title": "Click a word to hide it", hide: "Hide “{0}”", show: "Show “{0}”", "hide-first": "Hide a word to see what the model would put there.", guesses: "Instead of “{0}”", "guesses-mask": "For the gap",
    "similarity-map": "How alike the sentences are: cosines, here from {0} to {1}", "too-few": "Write at least two lines.",
    "sense-map": "How alike the word’s meanings are: cosines, here from {0} to {1}", "sense-few": "The word stands in fewer than two of the sentences.", "sense-note": "The model tells {0} groups apart.", "sense-one": "The model tells no groups apart: it is one sense here.", near: "Nearest words to “{0}” in sentence {1}", "near-pick": "Nearest words in context",
    looks: "Where “{0}” looks", "looks-pick": "Choose a token to see where it looks", "attention-note": "Where a head looks is what it computes with, not why the model answers as it does.", "of": "{0} of {1}",
  },
  zh: {
    models: "模型", views: "视图", skip: "跳到表单", light: "浅色", dark: "深色",
    ask: "提问", asking: "正在计算", copy: "复制链接", copied: "已复制", keys: "或按 Ctrl + Enter", link: "链接在地址栏中",
    speed: "{0} 毫秒", queue: "队列中 {0} 条", loading: "正在加载", "not loaded": "提问时加载",
    nothing: "没有提供任何模型。", unreachable: "无法连接服务器。",
    locked: "令牌", "locked-note": "此服务器只回答持有令牌的人。令牌只保存在这个标签页里，关闭即忘。", token: "令牌", open: "打开", "wrong-token": "令牌不对。",
    "task-classify": "判断一段文字属于哪个标签。", "task-regress": "给一段文字打分。", "task-tag": "标出文字中的人名、地名等。",
    "task-qa": "在文章中找出问题的答案。", "task-choice": "选出文字最合理的后续。",
    "task-embed": "把文字变成向量：意思相近，距离就近。", "task-fill-mask": "猜测被遮住的词。", "task-generate": "从开头接着写。", "task-rewrite": "由一段文字写出另一段：翻译、摘要、回答。", "task-other": "按训练时的任务回答。",
    predict: "预测", classify: "分类", regress: "打分", tag: "标注", qa: "问答", choice: "选择", fill: "填空", write: "续写", rewrite: "改写", given: "原文", written: "写出的", similarity: "相似度", senses: "词义", attention: "注意力", nearest: "最近的词", analogy: "类比", map: "地图",
    "nearest-words": "一个词或几个词", "nearest-to": "与“{0}”最近", "analogy-a": "这个", "analogy-b": "之于这个", "analogy-c": "如同这个", "analogy-of": "“{0}”之于“{1}”，如同“{2}”之于：",
    "map-words": "词，每行一个", "map-note": "所有方向中，这些词差别最大的两个。", "unknown-words": "不认识：{0}", beside: "在 {0} 中",
    text: "文字", beginning: "开头", "one-a-line": "{0}，每行一个",
    "part-text": "文字", "part-pair": "第二段文字", "part-question": "问题", "part-context": "文章", "part-premise": "开头", "part-endings": "后续",
    sentences: "句子，每行一个", word: "词", tokens: "最多词元数", temperature: "每个词元", likeliest: "取最可能的", tame: "抽取，较保守", "as-it-is": "按概率抽取", layer: "层", head: "头", second: "第二段文字",
    probabilities: "概率", labels: "标签：{0}", knows: "它认识：{0}。", none: "无", cut: "文字超过模型能读的长度，有一部分没有读。",
    why: "“{0}”的依据", "why-note": "着色的词支持这个标签，带下划线的词反对它。在上面选择别的标签可以看它的依据。",
    "ended-end": "模型写了 {0} 个词元后结束。", "ended-length": "{0} 个词元，已达所要的数量。", "ended-full": "{0} 个词元，模型读不下更多了。", "ended-stop": "{0} 个词元后遇到停止词。",
    "no-tags": "没有找到。", "no-answer": "文章里没有说。", alternatives: "其他答案",
    "hide-title": "点一个词把它遮住", hide: "遮住“{0}”", show: "显示“{0}”", "hide-first": "遮住一个词，看模型会填什么。", guesses: "代替“{0}”", "guesses-mask": "空格处",
    "similarity-map": "句子之间的相似度：余弦，这里从 {0} 到 {1}", "too-few": "请至少写两行。",
    "sense-map": "这个词在各句中意思的相似度：余弦，这里从 {0} 到 {1}", "sense-few": "含有这个词的句子不到两个。", "sense-note": "模型分出 {0} 组。", "sense-one": "模型没有分出不同的组：这里是一个意思。", near: "与第 {1} 句的“{0}”最接近的词", "near-pick": "上下文中最接近的词",
    looks: "“{0}”在看哪里", "looks-pick": "选一个词元，看它在看哪里", "attention-note": "一个头看哪里，是它计算的材料，不是模型这样回答的原因。", "of": "第 {0} 个，共 {1} 个",
  },
};

const EXAMPLES = {
  en: {
    text: "A quiet, generous film with a wonderful cast.", "tag-text": "Marie Curie moved from Warsaw to Paris in 1891.",
    question: "When did Marie Curie move to Paris?", context: "Marie Curie was born in Warsaw in 1867. In 1891 she moved to Paris, where she studied physics and mathematics.",
    premise: "She opened the umbrella because", endings: "it had started to rain.\nthe shop was closed.\nher brother likes music.",
    whole: "The capital of France is a city on the river Seine.", sentences: "A man is playing the guitar.\nSomebody makes music.\nThe stock market fell today.\nShares lost value this morning.",
    word: "bank", analogy: "man king woman", map: "king queen man woman france paris italy rome germany berlin", senses: "He sat down on the bank of the river.\nThe bank of the stream was muddy.\nShe took the money to the bank.\nThe bank raised its interest rates.",
    story: "Once upon a time there was",
    attended: "The animal did not cross the street because it was too tired.",
  },
  zh: {
    text: "这部电影安静而动人，演员非常出色。", "tag-text": "鲁迅一八八一年出生在浙江绍兴。",
    question: "鲁迅出生在哪里？", context: "鲁迅原名周树人，一八八一年出生在浙江绍兴，后来到日本学习医学。",
    premise: "她打开雨伞，因为", endings: "开始下雨了。\n商店关门了。\n弟弟喜欢音乐。",
    whole: "北京是中国的首都。", sentences: "一个人在弹吉他。\n有人在演奏音乐。\n今天股市下跌。\n早上股票贬值了。",
    word: "苹果", analogy: "男人 国王 女人", map: "国王 女王 男人 女人 法国 巴黎 中国 北京 日本 东京", senses: "他吃了一个苹果。\n树上的苹果红了。\n苹果公司发布了新手机。\n苹果的股票上涨了。",
    story: "从前有一座山，",
    attended: "小狗没有过马路，因为它太累了。",
  },
};

let language = "en";

export const LANGUAGES = Object.keys(TEXTS);
export const current = () => language;
export function speak(chosen) { language = LANGUAGES.includes(chosen) ? chosen : "en"; }
export const say = (name, ...parts) => (TEXTS[language][name] ?? name).replace(/\{(\d)\}/g, (_, at) => parts[at]);
/** What the fields for a part of an input are called; one that is not known, as its task calls it. */
export const partName = (name, several) => {
  const known = TEXTS[language][`part-${name}`] ?? name;
  return several ? say("one-a-line", known) : known;
};
export const lead = (task) => TEXTS[language][`task-${task}`] ?? say("task-other");
export const example = (name) => EXAMPLES[language][name];

/** What one language has and another has not. */
export const missing = () => LANGUAGES.flatMap((one) => [TEXTS, EXAMPLES].flatMap((all) => LANGUAGES.flatMap((other) => Object.keys(all[one]).filter((name) => !(name in all[other])))));
