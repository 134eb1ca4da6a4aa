/* Questions to the server. */

const SILENT = "the server does not answer; is `ridgeline serve` still running?";

export class Refused extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, body, signal) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const done = waited();
  try {
    return await answered(await reached(`/api/${path}`, { ...options, signal }));
  } finally {
    done();
  }
}

/* An answer that takes long is waited for visibly. */
const PATIENCE = 400; // milliseconds
let slow = 0;
function waited() {
  let counted = false;
  const mark = (step) => document.getElementById("waiting").toggleAttribute("hidden", (slow += step) === 0);
  const timer = setTimeout(() => { counted = true; mark(1); }, PATIENCE);
  return () => { clearTimeout(timer); if (counted) mark(-1); };
}

/* A file or a pasted text as it is, which the server reads as data. `sent(share)` hears how much of it is there; a fetch would not say. */
export function upload(path, content, sent = () => {}) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/${path}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.upload.addEventListener("progress", ({ loaded, total }) => sent(total ? loaded / total : 1));
    request.addEventListener("error", () => fail(new Refused(SILENT)));
    request.addEventListener("load", () => {
      const answer = parsed(request.responseText);
      if (request.status === 200) return answer ? done(answer) : fail(new Refused(SILENT));
      fail(new Refused(answer?.error ?? `the server answered ${request.status}`, request.status));
    });
    request.send(content);
  });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

async function reached(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(SILENT);
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
