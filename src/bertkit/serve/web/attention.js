// Where a head of a layer looks.

import { bars, make } from "./dom.js";
import { example, say } from "./words.js";

const MOST = 8;

const choices = (count) => Array.from({ length: count ?? 1 }, (_, at) => [String(at), say("of", at + 1, count ?? 1)]);

export const attention = {
  name: "attention",
  fields: (model) => [
    { name: "text", label: say("text"), example: model.sample.text ?? example("attended"), rows: 2 },
    { name: "pair", label: say("second"), rows: 1 },
    { name: "layer", kind: "select", label: say("layer"), options: choices(model.layers), start: "0" },
    { name: "head", kind: "select", label: say("head"), options: choices(model.heads), start: "0" },
    { name: "token", kind: "kept" },
  ],
  async ask({ values, of, keep }) {
    const [found] = await of("attention", {
      text: values.text, ...(values.pair ? { pair: values.pair } : {}), layer: Number(values.layer), head: Number(values.head), truncate: true,
    });
    const map = found.maps[0][0];
    const title = make("h2", {}, say("looks-pick"));
    const ranking = make("div", { class: "ranking" });
    const tokens = found.surfaces.map((surface, at) => make("button", {
      type: "button", class: "token", "aria-pressed": "false",
      on: { click: () => { keep("token", at); show(at); }, mouseenter: () => show(at), focus: () => show(at), mouseleave: () => show(kept()) },
    }, surface));
    const kept = () => (values.token !== "" && Number(values.token) < tokens.length ? Number(values.token) : null);

    function show(at) {
      tokens.forEach((token, number) => {
        token.style.setProperty("--share", at === null ? 0 : map[at][number]);
        token.setAttribute("aria-pressed", String(number === at));
      });
      title.textContent = at === null ? say("looks-pick") : say("looks", found.surfaces[at]);
      const rows = at === null ? [] : map[at].map((share, number) => ({ name: found.surfaces[number], share }));
      ranking.replaceChildren(bars(rows.sort((one, other) => other.share - one.share).slice(0, MOST), { label: title.textContent }));
    }

    show(kept());
    const flow = make("p", { class: "flow words" }, ...tokens.flatMap((token, at) => (at ? [found.gaps[at], token] : [token])));
    return [
      title, flow, ranking, found.tokens_in_text > found.tokens.length ? make("p", { class: "note" }, say("cut")) : null,
      make("p", { class: "note" }, say("attention-note")),
    ];
  },
};
