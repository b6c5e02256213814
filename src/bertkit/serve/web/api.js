// Questions to the server that this page came from, with its token where it wants one.

import { kept, keep } from "./state.js";

export class Refusal extends Error {}

/** The server wants a token, or another one. */
export class Locked extends Refusal {}

/** Whether a token has been given; with one, it is what is sent from now on. */
export const hasToken = () => kept("token") !== null;
export const unlock = (token) => keep("token", token);

function send(path, { headers = {}, ...options } = {}) {
  const own = hasToken() ? { authorization: `Bearer ${kept("token")}` } : {};
  return fetch(path, { ...options, headers: { ...headers, ...own } });
}

async function answerOf(done) {
  let said = null;
  try { said = await done.json(); } catch { /* not JSON: told below by its status */ }
  if (done.status === 401) throw new Locked(said?.error?.message ?? "HTTP 401");
  if (!done.ok || said === null) throw new Refusal(said?.error?.message ?? `HTTP ${done.status}`);
  return said;
}

export const models = async () => (await answerOf(await send("v1/models"))).data;

const routeOf = (model) => `v1/models/${encodeURIComponent(model)}`;

export const model = async (name) => answerOf(await send(routeOf(name)));

const asking = (name, operation, body, signal) => send(`${routeOf(name)}/${operation}`, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal,
});

/** The answers of a model to a question, in the order of its inputs. */
export async function ask(name, operation, body, signal) {
  return (await answerOf(await asking(name, operation, body, signal))).answers;
}

/** The same for an answer in pieces, a line of JSON each: `hear` is told them as they come. */
export async function stream(name, operation, body, signal, hear) {
  const done = await asking(name, operation, { ...body, stream: true }, signal);
  if (!done.ok) await answerOf(done);
  const reader = done.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done: over } = await reader.read();
    if (over) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) hear(JSON.parse(line));
  }
}
