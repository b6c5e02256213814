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

/** The answers of a model to a question, in the order of its inputs. */
export async function ask(name, operation, body, signal) {
  const done = await fetch(`${routeOf(name)}/${operation}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal,
  });
  return (await answerOf(done)).answers;
}
