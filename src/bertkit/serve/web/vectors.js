// Vectors of sentences, and of a word in several of them.

import * as api from "./api.js";
import { bars, cosines, heatMap, make } from "./dom.js";
import { lines } from "./form.js";
import { example, say } from "./words.js";

const [NEAREST, HUES] = [6, 6];
const APART = 1 / 3;  // of the silhouette, whose highest is 1: below, groups are no more than chance makes

const alert = (name) => [make("p", { role: "alert", class: "alert" }, say(name))];

export const similarity = {
  name: "similarity",
  fields: (model) => [{ name: "sentences", label: say("sentences"), example: model.sample.sentences ?? example("sentences"), rows: 5 }],
  async ask({ values, of }) {
    const sentences = lines(values.sentences);
    if (sentences.length < 2) return alert("too-few");
    const answers = await of("embed", { inputs: sentences, normalize: true });
    return [heatMap(sentences, cosines(answers.map((each) => each.vector)), (...ends) => say("similarity-map", ...ends))];
  },
};

export const senses = {
  name: "senses",
  fields: () => [
    { name: "word", kind: "line", label: say("word"), example: example("word") },
    { name: "sentences", label: say("sentences"), example: example("senses"), rows: 5 },
    { name: "chosen", kind: "kept" },
  ],
  async ask({ values, of, keep, model }) {
    const sentences = lines(values.sentences);
    if (sentences.length < 2) return alert("too-few");
    const answers = await of("embed", { inputs: sentences, level: "word" });
    const other = await ofTheOtherKind(model, sentences, values.word.trim());
    const found = answers.flatMap((answer, number) => occurrences(answer, values.word.trim(), number));
    if (found.length < 2) return alert("sense-few");
    const near = cosines(found.map((each) => each.vector));
    const groups = groupsOf(near);
    const many = Math.max(...groups) + 1;
    const order = found.map((_, at) => at).sort((one, other) => groups[one] - groups[other] || one - other);
    const all = answers.flatMap((answer, number) => answer.words.map((word) => ({ ...word, number })));
    const ranking = make("div", { class: "ranking" });
    const title = make("h2", {}, say("near-pick"));

    function show(at) {
      const { vector, number, start, end } = found[at];
      title.textContent = say("near", values.word.trim(), number + 1);
      const others = all.filter((each) => each.number !== number || each.end <= start || each.start >= end);
      const shares = cosineWith(vector, others.map((each) => each.vector));
      const rows = others.map((each, index) => ({ name: `${each.word} (${each.number + 1})`, share: shares[index], value: shares[index].toFixed(2) }));
      ranking.replaceChildren(bars(rows.sort((one, other) => other.share - one.share).slice(0, NEAREST), { label: title.textContent }));
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === buttons[at]));
    }

    const buttons = found.map((each, at) => make("button", { type: "button", class: "occurrence", "aria-pressed": "false", on: { click: () => { keep("chosen", at); show(at); } } },
      each.before, make("mark", {}, each.inside), each.after));
    const names = order.map((at) => make("span", {}, many > 1 ? make("span", { class: `group hue${groups[at] % HUES}` }, String.fromCharCode(65 + groups[at])) : "", " ", buttons[at]));
    show(values.chosen !== "" && Number(values.chosen) < found.length ? Number(values.chosen) : order[0]);
    return [heatMap(names, order.map((one) => order.map((other) => near[one][other])), (...ends) => say("sense-map", ...ends), order.map((at) => found[at].number + 1)),
      ...other, make("p", { class: "note" }, many > 1 ? say("sense-note", many) : say("sense-one")), title, ranking];
  },
};

/** Beside a table of words, with one vector for all places, a model that reads them; and the other way round. */
async function ofTheOtherKind(model, sentences, word) {
  const other = (await api.models()).find((each) => each.layers !== null && each.table !== model.table && each.task !== "generate");
  if (!other) return [];
  const answers = await api.ask(other.id, "embed", { inputs: sentences, level: "word" });
  const found = answers.flatMap((answer, number) => occurrences(answer, word, number));
  if (found.length < 2) return [];
  const names = found.map((each) => `${each.before}${each.inside}${each.after}`);
  return [heatMap(names, cosines(found.map((each) => each.vector)), () => say("beside", other.id), found.map((each) => each.number + 1))];
}

/** Where the word stands in a sentence, with the mean of the vectors of what it is made of there. */
function occurrences(answer, wanted, number) {
  const characters = Array.from(answer.text);
  const [text, word] = [characters.map((each) => each.toLowerCase()), Array.from(wanted.toLowerCase())];
  const found = [];
  for (let start = 0; word.length && start + word.length <= text.length; start += 1) {
    const end = start + word.length;
    if (!word.every((each, at) => text[start + at] === each)) continue;
    const parts = answer.words.filter((each) => each.start >= start && each.end <= end);
    if (!parts.length || parts[0].start !== start || parts[parts.length - 1].end !== end) continue;
    const vector = parts[0].vector.map((_, at) => parts.reduce((sum, part) => sum + part.vector[at], 0) / parts.length);
    const cut = (from, to) => characters.slice(from, to).join("");
    found.push({ number, start, end, vector, before: cut(0, start), inside: cut(start, end), after: cut(end) });
  }
  return found;
}

/** As many as there are: the nearest are joined again and again, and of all the steps on the way that one is taken whose
 *  groups are the furthest apart for their width; all in one, if even those are not apart. Numbered as they come. */
export function groupsOf(near) {
  const mean = (one, other) => one.reduce((sum, i) => sum + other.reduce((its, j) => its + near[i][j], 0), 0) / (one.length * other.length);
  let [groups, best, chosen] = [near.map((_, at) => [at]), APART, [near.map((_, at) => at)]];
  while (groups.length > 2) {
    let [high, joined] = [-Infinity, null];
    groups.forEach((one, i) => groups.forEach((other, j) => { if (i < j && mean(one, other) > high) [high, joined] = [mean(one, other), [i, j]]; }));
    const [i, j] = joined;
    groups = [...groups.filter((_, at) => at !== i && at !== j), [...groups[i], ...groups[j]]];
    const apart = silhouette(near, groups);
    if (apart > best) [best, chosen] = [apart, groups];
  }
  const found = near.map((_, at) => chosen.findIndex((group) => group.includes(at)));
  const order = [...new Set(found)];
  return found.map((group) => order.indexOf(group));
}

/** How much nearer each is to its own group than to the next one, in the mean: from -1 to 1. */
function silhouette(near, groups) {
  const away = (at, group) => group.reduce((sum, other) => sum + 1 - near[at][other], 0);
  const each = near.map((_, at) => {
    const own = groups.find((group) => group.includes(at));
    if (own.length === 1) return 0;
    const inside = away(at, own) / (own.length - 1);
    const outside = Math.min(...groups.filter((group) => group !== own).map((group) => away(at, group) / group.length));
    return (outside - inside) / (Math.max(inside, outside) || 1);
  });
  return each.reduce((sum, value) => sum + value, 0) / each.length;
}

function cosineWith(vector, others) {
  const length = Math.hypot(...vector) || 1;
  return others.map((each) => each.reduce((sum, value, at) => sum + value * vector[at], 0) / length / (Math.hypot(...each) || 1));
}
