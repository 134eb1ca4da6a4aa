/* The state of a view is in the address after the #: `#/explore?machines=h100-sxm&...`. A link restores it. */

export function read() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", params: new URLSearchParams(query) };
}

/* Lasting changes get an entry in the history, the steps of a slider do not: those are written when it rests, because browsers
   refuse addresses that change many times a second. */
const REST = 100; // milliseconds
let resting = null, timer = null;

function settle() {
  clearTimeout(timer);
  if (resting && resting.path === read().path) history.replaceState(null, "", resting.address);
  resting = null;
}

export function write(path, values, push = false) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    params.set(name, typeof value === "object" ? JSON.stringify(value) : String(value === true ? 1 : value));
  }
  const query = params.toString();
  const address = `#${path}${query ? `?${query}` : ""}`;
  if (push) settle();
  clearTimeout(timer);
  resting = null;
  if (address === location.hash) return;
  if (push) return history.pushState(null, "", address);
  resting = { path, address };
  timer = setTimeout(settle, REST);
}

export function json(params, name, otherwise) {
  try {
    return params.has(name) ? JSON.parse(params.get(name)) : otherwise;
  } catch {
    return otherwise;
  }
}

export function list(params, name, otherwise = []) {
  const text = params.get(name);
  return text === null ? otherwise : text.split(",").filter(Boolean);
}
