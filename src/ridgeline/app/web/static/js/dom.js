/* Elements from code. Texts become text nodes, so no name of a kernel is ever read as markup. */

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/* Says what happened: shown over the lower edge of the window for a while, and read aloud. `quiet` is read aloud only: the page shows it. */
const SHOWN = 6000; // milliseconds
let hiding = null;
export function announce(text, { quiet = false } = {}) {
  const status = document.getElementById("status");
  status.textContent = text;
  status.classList.toggle("visually-hidden", quiet || !text);
  clearTimeout(hiding);
  if (!quiet) hiding = setTimeout(() => status.classList.add("visually-hidden"), SHOWN);
}

export function failure(error) {
  return h("p", { class: "error", role: "alert" }, error.message ?? String(error));
}

/* A table as the server describes it: heads, cells, which columns are numbers, notes. */
export function table(shown, options = {}) {
  const cell = (tag, text, index) => h(tag, { class: shown.numeric[index] ? "n" : text.length > 60 ? "long" : null, scope: tag === "th" ? "col" : null }, text);
  const rows = shown.cells.map((row, place) => {
    const element = h("tr", {}, row.map((text, index) => cell("td", text, index)));
    options.row?.(element, place);
    return element;
  });
  return h(
    "div", {},
    shown.title ? h("h3", {}, shown.title) : null,
    h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": shown.title || "table" },
      h("table", {}, h("thead", {}, h("tr", {}, shown.heads.map((text, index) => cell("th", text, index)))), h("tbody", {}, rows))),
    shown.notes.map((note) => h("p", { class: "note" }, note)),
  );
}
