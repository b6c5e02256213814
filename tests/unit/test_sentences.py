from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.text import mark_sentences, split_sentences

PIECES = [
    *"abzAQZ019",
    *" \n\t\u3000\xa0.!?…。！？．,，\"'“”’()（）「」《》[]",
    "The ",
    "Dr",
    "U.S",
    "etc",
    "说",
    "中文",
    "🙂",
]


@pytest.mark.parametrize(
    "marked",
    [
        "He came.|She left.",
        "Mr. Brown met Dr. Wu and Prof. Ito.|They talked.",
        "Fruit, e.g. Apples, i.e. Malus, sell well.",
        "We sold pears, plums, etc.|Nobody came.",
        "See No. 5, Fig. 3, Vol. IV and p. 7 of it.",
        "He said no.|Then he went.",
        "It opened on Jan. 5 and closed on Sept. 30, 1999.|Nobody minded.",
        "J. K. Rowling and George R. R. Martin write.",
        "He joined the U.S. Army in March.",
        "He lived in the U.S.|He left in May.",
        "They met at 5 p.m.|The hall was full.",
        "Acme Inc. Chairman Li spoke.|It was late.",
        "Pi is 3.14 and version 2.0.1 is out.|Get it.",
        "It cost 3.50.|20 were sold.",
        "Well...|Nobody knows.",
        "Well... I think so.|He waited… and left.",
        'He said "Go."|She went.',
        "(It was late.)|Nobody came [that day].|All slept.",
        '"Why?" he asked.|"Who knows!"|Nobody did.',
        "What?!|No!!!|Yes.",
        "It grew.[12]|Then it fell.[3][4]|Then it rose.",
        "Read example.com or a.b.c or mail me@example.org today.|Then reply.",
        "Shares of Yahoo! Inc. fell.",
        "The film Help! (1965) was shot there.",
        "Roe v. Wade and Brown v. Board came up.",
        "Prices rose.|$5 was little.",
        "Élodie est venue.|Éric est parti.",
        "1. First things first\n2. Second things.|They wait.\na. One\nIV. The end\n1.2. Scope",
        "a) One thing\n(iii) Another thing.|It ends.",
        "A heading\nIts text.|More of it.\n",
        "Trailing space. \nNext line.",
    ],
)
def test_english_sentences_end_where_a_reader_ends_them(marked):
    assert mark_sentences(marked.replace("|", " "), "|") == marked


@pytest.mark.parametrize(
    "marked",
    [
        "今天下雨。|我们不去了！|你呢？",
        "他说：“我来了。”|她走了。",
        "“你去吗？”他问。|没有人回答。",
        "「真的吗？！」|大家都笑了。",
        "（见下图。）|接着读。",
        "他喊着“加油！”的口号。",
        "电影《你好！世界》上映了。|票房不错。",
        "圆周率是３．１４，不是３。|对吗？",
        "快来!|我在这里。|好吗?|好。",
        "他喜欢……也许不喜欢。",
        "版本2.0.1发布了。|请下载。",
        "他在MIT读书。|His English is good.‖他回国了。",
        "作者（J. K. Rowling）来了。|Hello World.‖你好。",
        "标题\n第一句。|第二句。\n",
    ],
)
def test_chinese_sentences_end_where_a_reader_ends_them(marked):
    text = marked.replace("‖", " ").replace("|", "")
    assert mark_sentences(text, "|") == marked.replace("‖", "|")


def test_white_space_between_chinese_sentences_gives_way_to_the_mark():
    assert mark_sentences("一句。　 又一句。 \n完。", "|") == "一句。|又一句。 \n完。"


@pytest.mark.parametrize("run", [".", "!?", "！", "?！", "。”", ".)", " .", "…！"])
def test_a_long_run_of_stops_takes_no_long_look(run):
    text = run * 100_000 + "，"
    assert mark_sentences(text).replace("\x1e", "").count(run[-1]) == 100_000


def test_a_split_drops_white_space_and_empty_lines():
    assert split_sentences("  One.  Two?\n\n \nA heading \n") == ["One.", "Two?", "A heading"]
    assert split_sentences(" \n ") == []


def test_real_prose_is_split_into_sentences_of_a_usual_length(english):
    sentences = split_sentences(" ".join(english[:400]))
    words = sorted(len(sentence.split()) for sentence in sentences)
    assert 8 <= words[len(words) // 2] <= 25


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_only_white_space_gives_way_to_marks(text):
    marked = mark_sentences(text)
    assert "".join(marked.replace("\x1e", "").split()) == "".join(text.split())
    assert marked.count("\n") == text.count("\n")


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_a_mark_stands_between_two_sentences_of_one_line(text):
    for line in mark_sentences(text, "|").split("\n"):
        if "|" in line:
            assert all(part.strip() for part in line.split("|"))


@given(st.text())
def test_a_text_is_the_sum_of_its_sentences(text):
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.replace("\x1e", "").split())
