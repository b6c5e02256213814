// A view of a model: its fields, a button, and below what the model says.
//
// A view has a name, `fields(model)`, and `ask(asked)`, which shows the answer. A field is {name, kind, label, example,
// rows, options}; of kind "kept" it is not shown, and is only part of the address: what was clicked.

import * as api from "./api.js";
import { make } from "./dom.js";
import { say } from "./words.js";

export function formOf(view, model, given, { changed, answered, loaded }) {
  const fields = view.fields(model);
  const values = Object.fromEntries(fields.map((field) => [field.name, given?.[field.name] ?? (given ? field.start ?? "" : field.example ?? field.start ?? "")]));
  let [touched, asked, under] = [given !== null, false, null];
  const result = make("section", { class: "result", "aria-live": "polite" });
  const button = make("button", { type: "submit", class: "main" }, say("ask"));
  const link = make("button", { type: "button", class: "quiet", on: { click: copy } }, say("copy"));
  const element = make("div", {}, make("form", { on: { submit, keydown } }, ...fields.filter((field) => field.kind !== "kept").map(control),
    make("p", { class: "actions" }, button, make("span", { class: "hint" }, say("keys")), link)), result);

  function control(field) {
    const id = `field-${field.name}`;
    const set = () => { values[field.name] = input.value; touched = true; };
    const properties = { id, name: field.name, spellcheck: "false", autocomplete: "off" };
    let input;
    if (field.kind === "select") {
      input = make("select", { id, name: field.name, on: { change: () => { set(); run(); } } },
        ...field.options.map(([value, shown]) => make("option", { value }, shown)));
    } else if (field.kind === "line") {
      input = make("input", { type: "text", ...properties, on: { input: set, change: set } });
    } else {
      input = make("textarea", { rows: field.rows ?? 3, ...properties, on: { input: set, change: set } });
    }
    input.value = values[field.name];
    if (field.kind === "select") values[field.name] = input.value;
    if (field.changed) input.addEventListener("input", () => field.changed(context()));
    return make("p", { class: `field ${field.kind ?? "area"}` }, make("label", { for: id }, field.label), input);
  }

  /** What a view is given to answer with. */
  function context() {
    let told = false;  // the first question is the one whose time is shown
    return {
      model, values, result, rerun: run,
      keep(name, value) { values[name] = String(value); touched = true; changed(values); },
      async of(operation, body) {
        const began = performance.now();
        const said = await api.ask(model.id, operation, body, under?.signal);
        if (!told) answered(performance.now() - began);
        told = true;
        return said;
      },
      async stream(operation, body, hear) {
        const [began, own] = [performance.now(), under];
        await api.stream(model.id, operation, body, own?.signal, (piece) => { if (own === under) hear(piece); });
        answered(performance.now() - began);
      },
    };
  }

  async function run() {
    under?.abort();
    const own = under = new AbortController();
    const unknown = model.layers === null;  // not loaded yet
    asked = true;
    changed(values);
    button.textContent = say("asking");
    result.setAttribute("aria-busy", "true");
    try {
      const show = (parts) => { if (own === under) result.replaceChildren(...parts.filter(Boolean)); };
      const parts = await view.ask({ ...context(), show });
      if (parts !== null) show(parts);  // else it has shown them as they came
      if (own !== under) return;
      if (unknown) await loaded();
    } catch (problem) {
      if (own !== under || problem.name === "AbortError") return;
      if (!(problem instanceof api.Refusal || problem instanceof TypeError)) console.error(problem);
      result.replaceChildren(make("p", { role: "alert", class: "alert" }, problem instanceof api.Refusal ? problem.message : say("unreachable")));
    } finally {
      if (own === under) {
        button.textContent = say("ask");
        result.removeAttribute("aria-busy");
      }
    }
  }

  async function submit(event) {
    event.preventDefault();
    await run();
    result.scrollIntoView({ block: "nearest" });
  }

  function keydown(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  }

  async function copy() {
    changed(values);
    try {
      await navigator.clipboard.writeText(location.href);
      link.textContent = say("copied");
    } catch {
      link.textContent = say("link");
    }
    setTimeout(() => { link.textContent = say("copy"); }, 2000);
  }

  return { element, ask: run, values: () => ({ ...values }), touched: () => touched, asked: () => asked, stop: () => { const last = under; under = null; last?.abort(); } };
}

export const lines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
