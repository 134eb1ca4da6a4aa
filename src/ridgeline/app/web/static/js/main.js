/* Shows the view that the address names. */
import { failure, h, replace } from "./dom.js";
import { redraw } from "./draw.js";
import { read } from "./state.js";

const VIEWS = { "/": "home", "/explore": "explore", "/profile": "profile", "/model": "model", "/compare": "compare", "/lessons": "lessons" };
const TITLES = { explore: "Rooflines", profile: "My kernels", model: "LLMs", compare: "Compare GPUs", lessons: "Lessons" };
let leave = null, turns = 0;

/* Each view gets an element of its own: one that is still loading when the reader has gone on fills an element nobody sees. */
async function show() {
  const { path, params } = read();
  if (!path.startsWith("/")) return; // a place within the page, no view
  const turn = ++turns;
  const name = VIEWS[path] ?? (path.startsWith("/lessons/") ? "lessons" : null);
  const root = document.getElementById("view"), place = h("div");
  for (const link of document.querySelectorAll("header nav a")) {
    const current = path.startsWith(link.getAttribute("href").slice(1));
    current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  document.title = TITLES[name] ? `${TITLES[name]} · ridgeline` : "ridgeline explorer";
  leave?.();
  leave = null;
  if (!name) return void replace(root, h("p", {}, "There is no such view. ", h("a", { href: "#/" }, "Start")));
  try {
    const view = await import(`./views/${name}.js`);
    if (turn !== turns) return;
    replace(root, place);
    const left = (await view.mount(place, params, path)) ?? null;
    if (turn === turns) leave = left;
    else left?.();
  } catch (error) {
    if (turn === turns) replace(root, failure(error));
  }
}

function themed() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").textContent = dark ? "light" : "dark";
  return dark;
}

document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # is the state of the view and stays
  document.getElementById("view").focus();
});
document.getElementById("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = themed() ? "light" : "dark";
  localStorage.setItem("ridgeline-theme", document.documentElement.dataset.theme);
  themed();
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { themed(); redraw(); });
addEventListener("hashchange", show);
addEventListener("popstate", () => { /* hashchange follows where the address changed */ });
themed();
if (document.readyState === "loading") addEventListener("DOMContentLoaded", show);
else show();
