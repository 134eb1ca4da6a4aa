/* What was read and scored, kept in this browser: {slug: {read, scores: {widget: [right, total]}}}. */

const KEY = "ridgeline-lessons";

/* A browser may refuse to keep anything (private windows): then progress lasts as long as the page. */
let kept = null;

function everything() {
  if (kept) return kept;
  try {
    const read = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    kept = typeof read === "object" && read !== null && !Array.isArray(read) ? read : {};
  } catch {
    kept = {};
  }
  return kept;
}

function save() {
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch { /* see above */ }
}

function entry(slug) {
  const all = everything();
  if (typeof all[slug] !== "object" || all[slug] === null) all[slug] = {};
  all[slug].scores ??= {};
  return all[slug];
}

export function markRead(slug) {
  if (entry(slug).read) return;
  entry(slug).read = true;
  save();
}

export function markScore(slug, id, right, total) {
  entry(slug).scores[id] = [right, total];
  save();
}

export function progress(slug) {
  const { read = false, scores } = entry(slug);
  const pairs = Object.values(scores).filter((pair) => Array.isArray(pair) && pair.every(Number.isFinite));
  return { read, right: pairs.reduce((sum, [right]) => sum + right, 0), total: pairs.reduce((sum, [, total]) => sum + total, 0) };
}

export function forget() {
  kept = {};
  save();
}

export function savedDepth() {
  try {
    return localStorage.getItem("ridgeline-depth");
  } catch {
    return null;
  }
}

export function saveDepth(depth) {
  try {
    localStorage.setItem("ridgeline-depth", depth);
  } catch { /* see above */ }
}
