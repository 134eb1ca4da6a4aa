/* Shows the view that the address names. */
import { failure, h, replace } from "./dom.js";
import { redraw } from "./draw.js";
import { read } from "./state.js";

const VIEWS = { "/": "home", "/explore": "explore", "/profile": "profile", "/model": "model", "/compare": "compare", "/lessons": "lessons" };
let leave = null;

async function show() {
  const { path, params } = read();
  const name = VIEWS[path] ?? (path.startsWith("/lessons/") ? "lessons" : null);
  const place = document.getElementById("view");
  for (const link of document.querySelectorAll("nav a")) {
    const current = path.startsWith(link.getAttribute("href").slice(1));
    current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  leave?.();
  leave = null;
  if (!name) return void replace(place, h("p", {}, "There is no such view. ", h("a", { href: "#/" }, "Start")));
  try {
    const view = await import(`./views/${name}.js`);
    replace(place);
    leave = (await view.mount(place, params, path)) ?? null;
  } catch (error) {
    replace(place, failure(error));
  }
}

function themed() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").textContent = dark ? "light" : "dark";
  return dark;
}

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
