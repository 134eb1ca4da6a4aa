/* Controls that several views share: sliders of sizes, a field that finds things by name, machines as chips, exports.
   All are real form elements with labels; what they do with the mouse, keys do too. */
import { ask, Refused } from "./api.js";
import { announce, h, replace } from "./dom.js";

let number = 0;
const fresh = (name) => `${name}-${(number += 1)}`;

/* Machines, ops, formats and models, asked for once. */
let choices = null;
export function catalog() {
  choices ??= ask("catalog").catch((error) => {
    choices = null;
    throw error;
  });
  return choices;
}

/* Sizes span many powers of two: their sliders step through powers of two. Short ranges and ranges from 0 step by 1. */
const MAX_LINEAR = 64;

/* A slider with its exact value beside it. options: label, min, max, value, scale ("log2", "linear", else by the range),
   step of a linear one, unit, title, oninput(value) while it moves, onchange(value) when it is let go or typed.
   The field takes any number; what is no number is handed on as text, so that the server says what is wrong with it.
   Keys: arrows go to the next power of two (Shift: by 1), Page Up and Down by 4 steps. Returns {element, set(value), value()}. */
export function slider({ label, min, max, value, scale, step = 1, unit = "", title = "", oninput, onchange }) {
  const log = (scale ?? (min > 0 && max > MAX_LINEAR ? "log2" : "linear")) === "log2";
  const toPlace = (size) => (log ? Math.log2(Math.max(size, min)) : size);
  const toSize = (place) => (log ? clamp(2 ** Math.round(place)) : clamp(round(place, step)));
  const clamp = (size) => Math.min(max, Math.max(min, size));
  const id = fresh("slider");
  let current = value;
  const range = h("input", { type: "range", id, min: String(toPlace(min)), max: String(toPlace(max)), step: "any", title });
  const field = h("input", { type: "text", inputmode: "decimal", "aria-label": `${label}, exact value`, autocomplete: "off", spellcheck: "false", placeholder: "not set" });
  const show = (typed = false) => {
    const known = Number.isFinite(Number(current)) && current !== "";
    range.value = String(known ? toPlace(clamp(Number(current))) : toPlace(min));
    range.classList.toggle("unset", !known);
    range.setAttribute("aria-valuetext", known ? `${current}${unit ? ` ${unit}` : ""}` : "not set");
    if (!typed) field.value = String(current);
  };
  const move = (size) => {
    if (size === current) return show();
    current = size;
    show();
    oninput?.(current);
  };
  range.addEventListener("input", () => move(toSize(Number(range.value))));
  range.addEventListener("change", () => onchange?.(current));
  range.addEventListener("keydown", (event) => {
    const size = keyed(event, Number(current), { log, step, min, max });
    if (size === null) return;
    event.preventDefault();
    move(clamp(size));
    onchange?.(current);
  });
  field.addEventListener("input", () => {
    const text = field.value.trim();
    current = text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
    show(true);
    oninput?.(current);
  });
  field.addEventListener("change", () => onchange?.(current));
  show();
  const element = h("div", { class: "slider" }, h("label", { for: id }, label, unit ? h("span", { class: "muted" }, ` ${unit}`) : null), field, range);
  return { element, range, field, value: () => current, set(size) { current = size; show(); } };
}

const round = (value, step) => Number((Math.round(value / step) * step).toPrecision(12));

function keyed(event, size, { log, step, min, max }) {
  const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 4, PageDown: -4 }[event.key];
  if (event.key === "Home") return min;
  if (event.key === "End") return max;
  if (steps === undefined || !Number.isFinite(size)) return null;
  if (!log) return round(size + steps * step, step);
  if (event.shiftKey) return Math.round(size) + Math.sign(steps);
  const place = Math.log2(size);
  return steps > 0 ? 2 ** (Math.floor(place + 1e-9) + steps) : 2 ** (Math.ceil(place - 1e-9) + steps);
}

/* A choice of a few. options: label, choices as [value, text] or texts, value, onchange(value). */
export function choice({ label, choices: offered, value, onchange }) {
  const id = fresh("choice");
  const pairs = offered.map((each) => (Array.isArray(each) ? each : [each, each]));
  if (value && !pairs.some(([key]) => String(key) === String(value))) pairs.push([value, value]); // of a link made by hand
  const select = h("select", { id, onchange: () => onchange(select.value) }, pairs.map(([key, text]) => h("option", { value: String(key) }, text)));
  select.value = String(value ?? "");
  const element = h("div", { class: "choice" }, h("label", { for: id }, label), select);
  return { element, select, value: () => select.value, set(key) { select.value = String(key ?? ""); } };
}

export function checkbox({ label, value, onchange, title = null }) {
  const box = h("input", { type: "checkbox", checked: Boolean(value), onchange: () => onchange(box.checked) });
  return { element: h("label", { class: "check", title }, box, ` ${label}`), box, set(on) { box.checked = Boolean(on); } };
}

/* A field that finds one of many by words of its name. items: {value, text, hint, group}; options: label, items,
   placeholder, onpick(value), keep: whether the field keeps the chosen text. Down and Up move, Enter takes, Escape closes. */
export function finder({ label, items, placeholder = "", onpick, keep = false, value = "" }) {
  const id = fresh("finder");
  const list = h("ul", { id: `${id}-list`, role: "listbox", class: "finder-list", "aria-label": label, hidden: true });
  const input = h("input", {
    id, type: "text", role: "combobox", "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder, value,
  });
  let offered = [], active = -1, kept = value;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    if (keep) input.value = kept;
  };
  const activate = (index) => {
    active = offered.length ? (index + offered.length) % offered.length : -1;
    list.querySelectorAll("[role=option]").forEach((option, place) => {
      option.setAttribute("aria-selected", String(place === active));
      if (place !== active) return;
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    });
  };
  const pick = (item) => {
    kept = keep ? item.text : "";
    input.value = kept;
    close();
    onpick(item.value);
  };
  const open = (query) => {
    offered = matching(typeof items === "function" ? items() : items, query);
    const rows = [];
    let group = null;
    offered.forEach((item, index) => {
      if (item.group && item.group !== group) rows.push(h("li", { class: "finder-group", role: "presentation" }, (group = item.group)));
      // the press, not the click: the field would lose the focus and close the list before
      rows.push(h("li", { id: `${id}-${index}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); pick(item); } }, h("span", {}, item.text), item.hint ? h("span", { class: "muted" }, item.hint) : null));
    });
    replace(list, rows.length ? rows : h("li", { class: "muted" }, "nothing of this name"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    activate(query && offered.length ? 0 : -1);
  };
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("focus", () => { if (keep) input.select(); });
  input.addEventListener("click", () => { if (list.hidden) open(keep ? "" : input.value); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (list.hidden) open(keep ? "" : input.value);
      activate(active < 0 && step < 0 ? -1 : active + step);
    } else if (event.key === "Enter" && !list.hidden && active >= 0) {
      event.preventDefault();
      pick(offered[active]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
  const element = h("div", { class: "finder" }, h("label", { for: id }, label), input, list);
  return { element, input, set(text) { kept = text; input.value = text; } };
}

/* Those that have every word of the query; names that begin with it come first, groups stay together otherwise. */
function matching(items, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (item) => `${item.text} ${item.value} ${item.hint ?? ""} ${item.group ?? ""}`.toLowerCase();
  const kept = items.filter((item) => words.every((word) => text(item).includes(word)));
  if (!words.length) return kept;
  const named = (item) => (String(item.value).toLowerCase().startsWith(words[0]) ? 0 : 1);
  return kept.map((item, index) => [named(item), index, item]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , item]) => item);
}

/* Several machines as chips, added by name. options: machines (of the catalog), chosen, max, min, label, onchange(names). */
export function machinePicker({ machines, chosen, max = 8, min = 1, label = "Machines", onchange }) {
  let names = [...chosen];
  const chips = h("ul", { class: "chips", "aria-label": `${label} chosen` });
  const change = (next) => {
    names = next;
    show();
    onchange([...names]);
  };
  const field = finder({
    label: max === 1 ? label : `Add to ${label.toLowerCase()}`, placeholder: "h200, mi300x, epyc ...", keep: max === 1, value: max === 1 ? (names[0] ?? "") : "",
    items: () => machines.filter((machine) => max === 1 || !names.includes(machine.name)).map((machine) => ({ value: machine.name, text: machine.name, hint: machine.title, group: machine.kind.toUpperCase() })),
    onpick(name) {
      if (max === 1) return change([name]);
      if (names.length >= max) return announce(`at most ${max} machines; remove one first`);
      change([...names, name]);
      announce(`${name} added`, { quiet: true });
    },
  });
  const show = () => replace(chips, max === 1 ? [] : names.map((name) => h("li", {}, h("span", {}, name), h("button", {
    type: "button", "aria-label": `Remove ${name}`, disabled: names.length <= min, onclick: () => { change(names.filter((each) => each !== name)); field.input.focus(); announce(`${name} removed`, { quiet: true }); },
  }, "×"))));
  show();
  const element = h("fieldset", { class: "machines" }, max === 1 ? null : h("legend", {}, label), chips, field.element);
  return { element, value: () => [...names], set(next) { names = [...next]; show(); if (max === 1) field.set(next[0] ?? ""); } };
}

const FORMATS = [["png", "PNG"], ["svg", "SVG"], ["csv", "CSV"], ["json", "JSON"], ["html", "HTML"]];
const TITLES = { png: "the chart as a picture", svg: "the chart as a vector picture", csv: "the table", json: "all data", html: "one file that opens offline: answer, chart, tables and data" };

/* Buttons that save what is shown. `path`: the view (`explore` asks /api/explore/export), `body`: () => its question. */
export function exportButtons(path, body) {
  const save = async (format, button) => {
    button.disabled = true;
    try {
      await download(`/api/${path}/export?format=${format}&theme=${dark() ? "dark" : "light"}`, body());
      announce(`${format.toUpperCase()} saved`);
    } catch (error) {
      announce(`not saved: ${error.message}`);
    } finally {
      button.disabled = false;
    }
  };
  return h("div", { class: "row exports", role: "group", "aria-label": "Save or share" },
    h("span", { class: "muted" }, "Save"),
    FORMATS.map(([format, text]) => h("button", { type: "button", title: TITLES[format], onclick: (event) => save(format, event.currentTarget) }, text)),
    linkButton());
}

export function linkButton() {
  return h("button", { type: "button", class: "link", title: "This address restores everything on the page", onclick: async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "Link copied";
    } catch {
      button.textContent = "Copy the address above"; // the browser keeps its clipboard to itself
    }
    announce(button.textContent, { quiet: true });
    setTimeout(() => { button.textContent = "Copy link"; }, 2000);
  } }, "Copy link");
}

const dark = () => (document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

async function download(address, body) {
  const response = await fetch(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!response.ok) throw new Refused((await response.json().catch(() => ({}))).error ?? `the server answered ${response.status}`);
  const name = /filename="([^"]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1] ?? "ridgeline";
  const address_of = URL.createObjectURL(await response.blob());
  h("a", { href: address_of, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address_of), 10_000);
}
