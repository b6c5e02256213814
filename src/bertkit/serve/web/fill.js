// Hidden words guessed: the text as words to click at.

import { bars, make } from "./dom.js";
import { example, say } from "./words.js";

const GUESSES = 5;
const PART = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}\p{M}]+(?:['’][\p{L}]+)*|[^\s\p{L}\p{N}]|\s+/gu;

/** The text in parts; masks that a person wrote are parts of their own. */
function partsOf(text, mask) {
  return text.split(mask).flatMap((piece, number) => [...(number ? [mask] : []), ...(piece.match(PART) ?? [])]);
}

export const fill = {
  name: "fill",
  fields: (model) => [
    { name: "text", label: say("text"), example: model.sample.text ?? example("whole"), rows: 3, changed: ({ values, result }) => { values.hidden = ""; result.replaceChildren(); } },
    { name: "hidden", kind: "kept" },
  ],
  async ask({ values, of, keep, model, rerun }) {
    const mask = model.mask ?? "[MASK]";
    const parts = partsOf(values.text, mask);
    const hidden = new Set(values.hidden.split(".").filter(Boolean).map(Number));
    const toggle = (at) => {
      if (!hidden.delete(at)) hidden.add(at);
      keep("hidden", [...hidden].sort((one, other) => one - other).join("."));
      rerun().then(() => document.querySelector(`[data-part="${at}"]`)?.focus());
    };
    const words = parts.map((part, at) => {
      if (/^\s+$/.test(part)) return part;
      if (part === mask) return make("span", { class: "gap" }, "\u2003\u2003");
      const away = hidden.has(at);
      return make("button", {
        type: "button", class: away ? "word gap" : "word", "data-part": at, "aria-pressed": String(away), "aria-label": say(away ? "show" : "hide", part), on: { click: () => toggle(at) },
      }, part);
    });
    const asked = parts.map((part, at) => (hidden.has(at) ? mask : part)).join("");
    const shown = [make("h2", {}, say("hide-title")), make("p", { class: "flow words" }, ...words)];
    if (!asked.includes(mask)) return [...shown, make("p", { class: "note" }, say("hide-first"))];
    const [answer] = await of("fill-mask", { inputs: asked, k: GUESSES });
    const masked = parts.map((part, at) => [part, at]).filter(([part, at]) => part === mask || hidden.has(at));
    const guesses = answer.masks.map((mask_, number) => {
      const [part] = masked[number] ?? [mask];
      const title = part === mask ? say("guesses-mask") : say("guesses", part);
      return make("div", { class: "guesses" }, make("h3", {}, title),
        bars(mask_.map(({ token, probability }) => ({ name: token, share: probability, best: token.toLowerCase() === part.toLowerCase() })), { label: title }));
    });
    return [...shown, make("div", { class: "columns" }, ...guesses)];
  },
};
