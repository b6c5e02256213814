// The shell: which models there are, which of them and which view of it is shown, language, light and dark, the address.

import * as api from "./api.js";
import { make } from "./dom.js";
import { formOf } from "./form.js";
import * as state from "./state.js";
import { attention } from "./attention.js";
import { choice, classify, other, qa, regress, tag } from "./predict.js";
import { fill } from "./fill.js";
import { senses, similarity } from "./vectors.js";
import { analogy, map, nearest } from "./table.js";
import { current, lead, say, speak } from "./words.js";
import { rewrite, write } from "./write.js";

const OF_TASK = { embed: [], classify: [classify], regress: [regress], tag: [tag], qa: [qa], choice: [choice], "fill-mask": [fill], generate: [write], rewrite: [rewrite] };
const OF_ALL = [similarity, senses, attention];
const [QUEUE_SECONDS, MOST_LABELS] = [5, 12];

const $ = (id) => document.getElementById(id);
let models = [];
let shown = { model: null, view: null, form: null };
let speed = null;

/** A model that was trained to write one text from another has parts of an input; one that only goes on has none. */
const taskOf = (model) => (model.task === "generate" && model.parts ? "rewrite" : model.task);
const OF_TABLE = [nearest, analogy, map];

const viewsOf = (model) => [...(model.table ? OF_TABLE : []), ...(OF_TASK[taskOf(model)] ?? (model.parts ? [other] : [])), ...OF_ALL.filter((each) => !model.table || each !== attention)];

/** The labels that a model has learned. */
function knows(model) {
  const labels = [...new Set((model.labels ?? []).map((each) => (model.task === "tag" ? each.replace(/^[A-Z]-/, "") : each)).filter((each) => model.task !== "tag" || each !== "O"))];
  return labels.length ? say("knows", labels.slice(0, MOST_LABELS).join(", ") + (labels.length > MOST_LABELS ? ", …" : "")) : "";
}

function showModels() {
  const list = models.map((model) => make("li", {}, make("a", {
    href: `#${encodeURIComponent(model.id)}`, "aria-current": model.id === shown.model?.id ? "page" : null,
  }, make("span", { class: "model" }, model.id), make("span", { class: "about" }, model.state === "ready" ? say(viewsOf(model)[0].name) : say(model.state)))));
  $("models").setAttribute("aria-label", say("models"));
  $("models").replaceChildren(make("ul", {}, ...list));
}

function showView(model, view, values, { run = false } = {}) {
  shown.form?.stop();
  const tabs = viewsOf(model).map((each) => make("li", {}, make("a", {
    href: `#${encodeURIComponent(model.id)}/${each.name}`, "aria-current": each === view ? "page" : null,
  }, say(each.name))));
  const form = formOf(view, model, values, {
    changed: (now) => state.write(model.id, view.name, now),
    answered: (milliseconds) => { speed = milliseconds; showStatus(); look(); },
    loaded: async () => {
      Object.assign(model, await api.model(model.id));
      if (model.layers !== null && shown.form === form) showView(model, view, form.values(), { run: true });
    },
  });
  shown = { model, view, form };
  showModels();
  document.title = `${model.id} · ${say(view.name)} · bertkit`;
  $("main").replaceChildren(
    make("h1", {}, model.id),
    make("p", { class: "lead" }, [lead(taskOf(model)), knows(model)].join(" ")),
    make("nav", { class: "tabs", "aria-label": say("views") }, make("ul", {}, ...tabs)),
    form.element,
  );
  for (const each of document.querySelectorAll("nav [aria-current]")) each.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (run) form.ask();
}

/** What the address says; what it leaves open is the first there is. */
function follow() {
  const wanted = state.read();
  const model = models.find((each) => each.id === wanted.model) ?? models.find((each) => each.default) ?? models[0];
  if (!model) return;
  const view = viewsOf(model).find((each) => each.name === wanted.view) ?? viewsOf(model)[0];
  const given = Object.keys(wanted.values).length > 0;
  showView(model, view, given ? wanted.values : null, { run: given });
}

function showStatus() {
  const parts = [];
  if (speed !== null) parts.push(say("speed", speed.toFixed(speed < 10 ? 1 : 0)));
  if (shown.model) parts.push(say("queue", shown.model.queue));
  $("status").textContent = parts.join(" · ");
}

/** How long the queue is now. */
async function look() {
  if (document.hidden || $("token")) return;
  try {
    for (const fresh of await api.models()) Object.assign(models.find((each) => each.id === fresh.id) ?? {}, fresh);
    showStatus();
  } catch (problem) {
    if (problem instanceof api.Locked) askForToken();
    else $("status").textContent = say("unreachable");
  }
}

/** The server wants a token, and none was given, or a wrong one. */
function askForToken() {
  if ($("token")) return;
  shown.form?.stop();
  shown = { model: null, view: null, form: null };
  models = [];
  $("models").replaceChildren();
  document.title = `${say("locked")} · bertkit`;
  const input = make("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true });
  const submit = (event) => { event.preventDefault(); api.unlock(input.value); input.id = ""; begin(); };
  $("main").replaceChildren(
    make("h1", {}, say("locked")),
    make("p", { class: "lead" }, say("locked-note")),
    make("form", { class: "alone", on: { submit } }, make("p", { class: "field line" }, make("label", { for: "token" }, say("token")), input),
      api.hasToken() ? make("p", { role: "alert", class: "alert" }, say("wrong-token")) : "",
      make("p", { class: "actions" }, make("button", { type: "submit", class: "main" }, say("open")))),
  );
  input.focus();
}

/** From the models that there are to what the address says. */
async function begin() {
  try {
    models = await api.models();
    if (models.length) follow();
    else $("main").replaceChildren(make("p", { role: "alert" }, say("nothing")));
    showStatus();
  } catch (problem) {
    if (problem instanceof api.Locked) askForToken();
    else $("main").replaceChildren(make("p", { role: "alert" }, problem instanceof api.Refusal ? problem.message : say("unreachable")));
  }
}

function showLanguage() {
  document.documentElement.lang = current() === "zh" ? "zh-CN" : "en";
  const other = current() === "zh" ? "en" : "zh";
  $("language").textContent = other === "zh" ? "中文" : "English";
  $("language").lang = other;
  $("skip").textContent = say("skip");
}

function showTheme() {
  const chosen = state.remembered("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
  const other = isDark() ? "light" : "dark";
  $("theme").textContent = say(other);
}

const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

$("language").addEventListener("click", () => {
  speak(current() === "zh" ? "en" : "zh");
  state.remember("language", current());
  const { model, view, form } = shown;
  showLanguage();
  showTheme();
  showStatus();
  if ($("token")) { $("token").id = ""; askForToken(); }
  if (model) showView(model, view, form.touched() ? form.values() : null, { run: form.asked() && form.touched() });
});

$("theme").addEventListener("click", () => {
  state.remember("theme", isDark() ? "light" : "dark");
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});

$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
addEventListener("hashchange", follow);
addEventListener("popstate", () => { if (!location.hash) follow(); });

speak(state.remembered("language") ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
showLanguage();
showTheme();
await begin();
setInterval(() => { if (!document.hidden) look(); }, QUEUE_SECONDS * 1000);
