/* Questions to the server. */

export class Refused extends Error {}

export async function ask(path, body, signal) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return answered(await reached(`/api/${path}`, { ...options, signal }));
}

/* A file or a pasted text as it is; the server reads it as data and keeps nothing. */
export async function upload(path, content, signal) {
  return answered(await reached(`/api/${path}`, { method: "POST", headers: { "content-type": "application/octet-stream" }, body: content, signal }));
}

async function reached(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer; is `ridgeline serve` still running?");
  }
}

async function answered(response) {
  if (response.ok) return response.json();
  const refusal = await response.json().catch(() => ({}));
  throw new Refused(refusal.error ?? `the server answered ${response.status}`);
}

/* The newest question counts: while one is under way the next waits, and those between are dropped, so a dragged slider
   shows answers as fast as they come. */
export function latest(work) {
  let running = false, waiting = null;
  return async function request(...args) {
    waiting = args;
    if (running) return;
    running = true;
    try {
      while (waiting) {
        const current = waiting;
        waiting = null;
        await work(...current);
      }
    } finally {
      running = false;
    }
  };
}
