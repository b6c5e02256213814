// Elements are made here and nowhere else, and whatever is text goes in as text, never as HTML.

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "style") for (const [each, to] of Object.entries(value)) element.style.setProperty(each, to);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Rows of {name, share, value}; with `choose`, names are buttons and the chosen one is pressed. */
export function bars(rows, { chosen = null, choose = null, label = null } = {}) {
  return make("ol", { class: "bars", "aria-label": label }, ...rows.map(({ name, share, value, best }) => {
    const shown = choose
      ? make("button", { type: "button", class: "name", "aria-pressed": String(name === chosen), on: { click: () => choose(name) } }, name)
      : make("span", { class: "name" }, name);
    const track = make("span", { class: "track", "aria-hidden": "true" }, make("span", { class: "fill", style: { "--share": Math.max(0, Math.min(1, share)) } }));
    return make("li", { class: best ? "best" : null }, shown, track, make("span", { class: "share" }, value ?? percent(share)));
  }));
}

/** What stands in a text before each of its words, and after the last. */
export function gapsOf(text, words) {
  let end = 0;
  const gaps = words.map((word) => {
    const at = text.indexOf(word, end);
    if (at < 0) return end ? " " : "";
    const gap = text.slice(end, at);
    end = at + word.length;
    return gap;
  });
  return [...gaps, text.slice(end)];
}

/** A table of numbers, the darker the higher, on the scale that they have: `caption` is told its ends. `names` are elements or texts, one for each row, and
 *  `marks` short names for the columns: counted through unless given. */
export function heatMap(names, numbers, caption, marks = names.map((_, at) => at + 1)) {
  const [low, high] = [Math.min(...numbers.flat()), Math.max(...numbers.flat())];
  const told = caption(low.toFixed(2), high.toFixed(2));
  const head = make("tr", {}, make("td"), ...marks.map((mark) => make("th", { scope: "col" }, String(mark))));
  const rows = numbers.map((row, at) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "number" }, String(marks[at])), " ", names[at]),
    ...row.map((value) => make("td", { class: "cell", style: { "--share": high > low ? (value - low) / (high - low) : 1 } }, value.toFixed(2)))));
  return make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": told },
    make("table", { class: "heat" }, make("caption", {}, told), make("thead", {}, head), make("tbody", {}, ...rows)));
}

export function cosines(vectors) {
  const lengths = vectors.map((each) => Math.hypot(...each) || 1);
  return vectors.map((one, i) => vectors.map((other, j) => one.reduce((sum, value, at) => sum + value * other[at], 0) / lengths[i] / lengths[j]));
}
