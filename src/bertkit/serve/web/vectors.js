// Vectors of sentences, and of a word in several of them.

import { bars, cosines, heatMap, make } from "./dom.js";
import { lines } from "./form.js";
import { example, say } from "./words.js";

const NEAREST = 6;

const alert = (name) => [make("p", { role: "alert", class: "alert" }, say(name))];

export const similarity = {
  name: "similarity",
  fields: () => [{ name: "sentences", label: say("sentences"), example: example("sentences"), rows: 5 }],
  async ask({ values, of }) {
    const sentences = lines(values.sentences);
    if (sentences.length < 2) return alert("too-few");
    const answers = await of("embed", { inputs: sentences, normalize: true });
    return [heatMap(sentences, cosines(answers.map((each) => each.vector)), say("similarity-map"))];
  },
};

export const senses = {
  name: "senses",
  fields: () => [
    { name: "word", kind: "line", label: say("word"), example: example("word") },
    { name: "sentences", label: say("sentences"), example: example("senses"), rows: 5 },
    { name: "chosen", kind: "kept" },
  ],
  async ask({ values, of, keep }) {
    const sentences = lines(values.sentences);
    if (sentences.length < 2) return alert("too-few");
    const answers = await of("embed", { inputs: sentences, level: "word" });
    const found = answers.flatMap((answer, number) => occurrences(answer, values.word.trim(), number));
    if (found.length < 2) return alert("sense-few");
    const near = cosines(found.map((each) => each.vector));
    const groups = twoGroups(near);
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
    const names = order.map((at) => make("span", {}, make("span", { class: `group hue${groups[at]}` }, "AB"[groups[at]]), " ", buttons[at]));
    show(values.chosen !== "" && Number(values.chosen) < found.length ? Number(values.chosen) : order[0]);
    return [heatMap(names, order.map((one) => order.map((other) => near[one][other])), say("sense-map"), order.map((at) => found[at].number + 1)),
      make("p", { class: "note" }, say("sense-note")), title, ranking];
  },
};

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

/** Around the two that are least alike; the first one is always in group 0. */
function twoGroups(near) {
  let [one, other] = [0, 1];
  near.forEach((row, i) => row.forEach((value, j) => { if (i < j && value < near[one][other]) [one, other] = [i, j]; }));
  const groups = near.map((row) => (row[one] >= row[other] ? 0 : 1));
  return groups.map((group) => (groups[0] ? 1 - group : group));
}

function cosineWith(vector, others) {
  const length = Math.hypot(...vector) || 1;
  return others.map((each) => each.reduce((sum, value, at) => sum + value * vector[at], 0) / length / (Math.hypot(...each) || 1));
}
