// What fine-tuned models say: labels, numbers, tags, answers, choices.

import { bars, gapsOf, make, percent } from "./dom.js";
import { lines } from "./form.js";
import { reasons } from "./reasons.js";
import { example, partName, say } from "./words.js";

const HUES = 6;
const MOST_BARS = 20;

const ROWS = { pair: 1, premise: 1, context: 5, endings: 4 };
const LINES = ["question"];

/** A field for each part of an input; of two ways to give one, the first. */
const fieldsOf = (model) => model.parts.filter((part) => !part.instead).map(({ name, several }) => ({
  name, label: partName(name, several), kind: LINES.includes(name) ? "line" : "area", rows: ROWS[name] ?? (several ? 4 : 3),
  example: model.sample[name] ?? example(`${model.task}-${name}`) ?? example(name),
}));

/** What is written in them. */
const inputOf = (model, values) => Object.fromEntries(model.parts.filter(({ name, needed }) => needed || values[name])
  .map(({ name, several }) => [name, several ? lines(values[name]) : values[name]]));

const cutOf = (answer) => (answer.cut ? make("p", { class: "note" }, say("cut")) : null);

export const classify = {
  name: "classify",
  fields: (model) => [...fieldsOf(model), { name: "label", kind: "kept" }],
  async ask({ values, of, keep, model, rerun, show }) {
    const [answer] = await of("predict", { inputs: inputOf(model, values) });
    const found = Object.entries(answer.probabilities).sort((one, other) => other[1] - one[1]);
    const best = answer.label ?? found[0][0];
    const chosen = values.label in answer.probabilities ? values.label : best;
    const choose = (name) => { keep("label", name); rerun(); };
    const explains = model.operations.includes("explain");
    const several = answer.labels && make("p", { class: "verdict" }, say("labels", answer.labels.join(", ") || say("none")));
    const said = [
      several ?? make("p", { class: "verdict" }, answer.label),
      bars(found.slice(0, MOST_BARS).map(([name, share]) => ({ name, share, best: answer.labels ? answer.labels.includes(name) : name === best })),
        { label: say("probabilities"), chosen, choose: explains ? choose : null }),
      cutOf(answer),
    ];
    if (!explains) return said;
    show(said);  // what it hung on takes longer
    return [...said, await reasons(of, values, chosen)];
  },
};

export const regress = {
  name: "regress",
  fields: fieldsOf,
  async ask({ values, of, model }) {
    const [answer] = await of("predict", { inputs: inputOf(model, values) });
    return [make("p", { class: "figure" }, answer.score.toPrecision(4)), cutOf(answer)];
  },
};

export const tag = {
  name: "tag",
  fields: fieldsOf,
  async ask({ values, of, model }) {
    const [answer] = await of("predict", { inputs: inputOf(model, values) });
    const gaps = gapsOf(values.text, answer.words);
    const types = [...new Set((model.labels ?? answer.tags).map((each) => each.replace(/^[A-Z]-/, "")).filter((each) => each !== "O"))];
    const spans = answer.entities ?? answer.tags.map((type, at) => ({ type, start: at, end: at + 1 }));
    const shown = make("p", { class: "flow tagged" });
    let at = 0;
    for (const { type, start, end } of spans) {
      for (; at < start; at += 1) shown.append(gaps[at], answer.words[at]);
      const inside = answer.words.slice(start, end).map((word, number) => (number ? gaps[start + number] : "") + word).join("");
      const sure = Math.min(...answer.probabilities.slice(start, end));
      shown.append(gaps[start], make("span", { class: `entity hue${types.indexOf(type) % HUES}`, title: percent(sure) }, inside, make("small", {}, type)));
      at = end;
    }
    for (; at < answer.words.length; at += 1) shown.append(gaps[at], answer.words[at]);
    shown.append(gaps[at]);
    return [shown, spans.length ? null : make("p", { class: "note" }, say("no-tags")), cutOf(answer)];
  },
};

export const qa = {
  name: "qa",
  fields: fieldsOf,
  async ask({ values, of, model }) {
    const [answer] = await of("predict", { inputs: inputOf(model, values) });
    const silent = answer.start === null;
    const others = answer.best.filter((each) => each.start !== answer.start || each.end !== answer.end);
    return [
      make("p", { class: "verdict" }, silent ? say("no-answer") : answer.answer, " ", make("span", { class: "share" }, percent(answer.probability))),
      marked(values.context, silent ? [] : [answer]),
      others.length ? make("h2", {}, say("alternatives")) : null,
      others.length ? bars(others.map((each) => ({ name: each.answer, share: each.probability })), { label: say("alternatives") }) : null,
    ];
  },
};

/** The server counts characters as Unicode does, the browser in halves of those beyond the first 65,536. */
function marked(passage, [answer]) {
  const characters = Array.from(passage);
  const part = (start, end) => characters.slice(start, end).join("");
  if (!answer) return make("p", { class: "flow passage" }, passage);
  return make("p", { class: "flow passage" }, part(0, answer.start), make("mark", {}, part(answer.start, answer.end)), part(answer.end));
}

export const choice = {
  name: "choice",
  fields: fieldsOf,
  async ask({ values, of, model }) {
    const endings = lines(values.endings);
    if (endings.length < 2) return [make("p", { role: "alert", class: "alert" }, say("too-few"))];
    const [answer] = await of("predict", { inputs: inputOf(model, values) });
    const best = Math.max(...answer.probabilities);
    return [
      make("p", { class: "verdict" }, answer.ending),
      bars(endings.map((name, at) => ({ name, share: answer.probabilities[at], best: answer.probabilities[at] === best })), { label: say("probabilities") }),
    ];
  },
};

/** A task that the page does not know: what its model says, by name. */
export const other = {
  name: "predict",
  fields: fieldsOf,
  async ask({ values, of, model }) {
    const [{ probabilities, cut, ...answer }] = await of("predict", { inputs: inputOf(model, values) });
    const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));
    const shares = probabilities && !Array.isArray(probabilities) ? Object.entries(probabilities) : [];
    return [
      ...Object.entries(answer).map(([name, value]) => make("p", { class: "verdict" }, make("span", { class: "share" }, name), " ", shown(value))),
      shares.length ? bars(shares.slice(0, MOST_BARS).map(([name, share]) => ({ name, share })), { label: say("probabilities") }) : null,
      cutOf({ cut }),
    ];
  },
};
