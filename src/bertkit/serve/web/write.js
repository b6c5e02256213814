// Text that goes on from a beginning, or is made of another text, word by word as it comes.

import { make } from "./dom.js";
import { example, say } from "./words.js";

const LENGTHS = ["16", "64", "256"];
const TEMPERATURES = [["0", "likeliest"], ["0.7", "tame"], ["1", "as-it-is"]];

export const write = {
  name: "write",
  fields: (model) => [
    { name: "text", label: say("beginning"), example: model.sample.text ?? example("story"), rows: 3 },
    { name: "tokens", kind: "select", label: say("tokens"), start: "64", options: LENGTHS.map((each) => [each, each]) },
    { name: "temperature", kind: "select", label: say("temperature"), start: "0", options: TEMPERATURES.map(([value, name]) => [value, say(name)]) },
  ],
  async ask({ values, stream, show }) {
    const written = make("span", { class: "written" });
    const ended = make("p", { class: "note" });
    show([make("p", { class: "flow" }, make("span", {}, values.text), written), ended]);
    const body = { inputs: values.text, max_tokens: Number(values.tokens), temperature: Number(values.temperature) };
    let last = null;
    await stream("generate", body, (piece) => {
      written.append(piece.text);
      last = piece;
    });
    ended.textContent = say(`ended-${last.ended}`, last.tokens);
    return null;
  },
};

const MOST = 1000;  // the model has a limit of its own

export const rewrite = {
  name: "rewrite",
  fields: () => [
    { name: "text", label: say("part-text"), example: example("attended"), rows: 5 },
    { name: "temperature", kind: "select", label: say("temperature"), start: "0", options: TEMPERATURES.map(([value, name]) => [value, say(name)]) },
  ],
  async ask({ values, stream, show }) {
    const written = make("p", { class: "flow written" });
    const ended = make("p", { class: "note" });
    const column = (title, text) => make("section", {}, make("h2", {}, title), text);
    show([make("div", { class: "beside" }, column(say("given"), make("p", { class: "flow" }, values.text)), column(say("written"), written)), ended]);
    let last = null;
    await stream("generate", { inputs: values.text, max_tokens: MOST, temperature: Number(values.temperature) }, (piece) => {
      written.append(piece.text);
      last = piece;
    });
    ended.textContent = say(`ended-${last.ended}`, last.tokens);
    return null;
  },
};
