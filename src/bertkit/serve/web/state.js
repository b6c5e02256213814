// What the page shows is in its address, after "#": model/view?field=value. What a person likes is in the browser; what
// opens the server, in this tab of it only.

export function read() {
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const [model = "", view = ""] = path.split("/").map(decoded);
  return { model, view, values: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

export function write(model, view, values) {
  const kept = Object.entries(values).filter(([, value]) => value !== "");
  const query = kept.length ? `?${new URLSearchParams(kept)}` : "";
  const address = `#${encodeURIComponent(model)}/${encodeURIComponent(view)}${query}`;
  if (address !== location.hash) history.replaceState(null, "", address);
}

export function remembered(name) {
  try { return localStorage.getItem(`bertkit.${name}`); } catch { return null; }
}

export function remember(name, value) {
  try { localStorage.setItem(`bertkit.${name}`, value); } catch { /* a browser that keeps nothing */ }
}

export function kept(name) {
  try { return sessionStorage.getItem(`bertkit.${name}`) ?? unkept[name] ?? null; } catch { return unkept[name] ?? null; }
}

export function keep(name, value) {
  unkept[name] = value;
  try { sessionStorage.setItem(`bertkit.${name}`, value); } catch { /* as long as the page is open, then */ }
}

const unkept = {};
