// A table of words: its nearest words, analogies, and a map.

import { bars, make } from "./dom.js";
import { lines } from "./form.js";
import { example, say } from "./words.js";

const NEAREST = 10;
const [WIDTH, HEIGHT, MARGIN] = [640, 420, 48];
const SVG = "http://www.w3.org/2000/svg";

const rows = (near) => near.map(({ word, score }, at) => ({ name: word, share: score, value: score.toFixed(3), best: at === 0 }));
const words = (text) => text.split(/[\s,，、]+/).filter(Boolean);

export const nearest = {
  name: "nearest",
  fields: () => [{ name: "word", kind: "line", label: say("nearest-words"), example: example("word") }],
  async ask({ values, of }) {
    const [found] = await of("words", { inputs: words(values.word), ask: "nearest", k: NEAREST });
    return [bars(rows(found.near), { label: say("nearest-to", values.word) })];
  },
};

export const analogy = {
  name: "analogy",
  fields: () => ["a", "b", "c"].map((name, at) => ({ name, kind: "line", label: say(`analogy-${name}`), example: words(example("analogy"))[at] })),
  async ask({ values, of }) {
    const [found] = await of("words", { inputs: [values.a, values.b, values.c].map((each) => each.trim()), ask: "analogy", k: 5 });
    return [make("h2", {}, say("analogy-of", values.a, values.b, values.c)), bars(rows(found.near), { label: say("analogy") })];
  },
};

export const map = {
  name: "map",
  fields: () => [{ name: "words", label: say("map-words"), example: words(example("map")).join("\n"), rows: 6 }],
  async ask({ values, of }) {
    const [found] = await of("words", { inputs: lines(values.words).flatMap(words), ask: "map" });
    const unknown = found.unknown.length ? make("p", { class: "note" }, say("unknown-words", found.unknown.join(", "))) : null;
    return [drawn(found.places), make("p", { class: "note" }, say("map-note")), unknown];
  },
};

function shape(tag, properties, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function drawn(places) {
  const to = (name, size) => {
    const all = places.map((each) => each[name]);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return (value) => MARGIN + ((value - low) / (high - low || 1)) * (size - 2 * MARGIN);
  };
  const [x, y] = [to("x", WIDTH), to("y", HEIGHT)];
  const marks = places.flatMap((each) => {
    const left = x(each.x) > WIDTH / 2;
    return [shape("circle", { cx: x(each.x), cy: y(each.y), r: 3 }),
      shape("text", { x: x(each.x) + (left ? -6 : 6), y: y(each.y) + 4, "text-anchor": left ? "end" : "start" }, each.word)];
  });
  return make("figure", { class: "wide" }, shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "map", role: "img", "aria-label": `${say("map")}: ${places.map((each) => each.word).join(", ")}` }, ...marks));
}
