// Questions to the server that this page came from.

export class Refusal extends Error {}

async function answerOf(done) {
  let said = null;
  try { said = await done.json(); } catch { /* not JSON: told below by its status */ }
  if (!done.ok || said === null) throw new Refusal(said?.error?.message ?? `HTTP ${done.status}`);
  return said;
}

export const models = async () => (await answerOf(await fetch("v1/models"))).data;

const routeOf = (model) => `v1/models/${encodeURIComponent(model)}`;

export const model = async (name) => answerOf(await fetch(routeOf(name)));

const asking = (name, operation, body, signal) => fetch(`${routeOf(name)}/${operation}`, {
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
