// Which words an answer hung on.

import { make } from "./dom.js";
import { Refusal } from "./api.js";
import { say } from "./words.js";

export async function reasons(of, { text, pair }, label) {
  let found;
  try {
    [found] = await of("explain", { text, ...(pair ? { pair } : {}), label });
  } catch (problem) {
    if (!(problem instanceof Refusal)) throw problem;
    return make("p", { class: "note" }, problem.message);
  }
  const most = Math.max(...found.words.map((each) => Math.abs(each.score))) || 1;
  const given = [text, pair ?? ""].map((each) => Array.from(each));
  const flows = given.filter((each) => each.length).map((characters, number) => {
    const flow = make("p", { class: "flow reasons" });
    let end = 0;
    for (const each of found.words.filter((word) => word.text === number)) {
      flow.append(characters.slice(end, each.start).join(""), make("span", {
        class: each.score < 0 ? "against" : "for", style: { "--share": Math.abs(each.score) / most }, title: each.score.toFixed(3),
      }, characters.slice(each.start, each.end).join("")));
      end = each.end;
    }
    flow.append(characters.slice(end).join(""));
    return flow;
  });
  return make("div", { class: "why" }, make("h2", {}, say("why", found.label)), ...flows, make("p", { class: "note" }, say("why-note")));
}
