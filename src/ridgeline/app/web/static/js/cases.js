/* Ops with sliders for their sizes and choices for the rest, as the rooflines and the comparison have them. */
import { checkbox, choice, finder, slider } from "./controls.js";
import { announce, h, replace } from "./dom.js";

export const MAX_CASES = 24;
const SIZES = ["Size", "Count"];

/* options: offered (the catalog), cases(): the list, which is changed in place; formats: what a dtype without a value is called, where
   that has a meaning of its own; onchange({dragged}) when a value changes, onsettle() when a control is let go, onadd() before an op is
   added, onremove() after one was removed. Returns {element, show()}. */
export function caseForms({ offered, cases, formats = null, onchange, onsettle = () => {}, onadd = () => {}, onremove = () => {} }) {
  const ops = new Map(offered.ops.map((op) => [op.name, op]));
  const list = h("div", { class: "cases" });
  const show = () => replace(list, cases().map(form));

  function form(entry, index) {
    const op = ops.get(entry.op);
    const main = op ? op.params.filter((param) => param.required || param.name === "dtype") : [];
    const other = op ? op.params.filter((param) => !main.includes(param)) : [];
    const made = (param) => control(entry, param);
    return h("section", { class: "panel case", "aria-label": `op ${index + 1}: ${entry.op}` },
      h("div", { class: "row between" }, h("h3", {}, entry.op), h("button", { type: "button", "aria-label": `Remove ${entry.op}`, onclick: () => remove(index) }, "×")),
      op ? h("p", { class: "note" }, op.summary) : h("p", { class: "error" }, "no op of this name"),
      main.map(made), other.length ? h("details", { open: other.some((param) => entry.values[param.name] !== undefined) }, h("summary", {}, "more"), other.map(made)) : null);
  }

  function control(entry, param) {
    const change = (value, dragged = false) => {
      if (value === "" || value === null) delete entry.values[param.name];
      else entry.values[param.name] = value;
      onchange({ dragged });
    };
    const changed = (value) => { change(value); onsettle(); };
    const size = SIZES.includes(param.kind), given = entry.values[param.name];
    if (size) {
      const now = given ?? param.default ?? (param.required ? param.start : "");
      if (param.required && given === undefined) entry.values[param.name] = now;
      return slider({ label: param.name, min: param.min, max: param.max, value: now, oninput: (value) => change(value, true), onchange: onsettle }).element;
    }
    if (param.kind === "Flag") return checkbox({ label: param.name, value: given ?? param.default ?? "", onchange: (on) => changed(on ? "yes" : "no") }).element;
    const choices = param.kind === "Format" ? offered.dtypes : param.choices;
    const unset = param.default === null ? "as the others" : param.name === "dtype" ? formats : null;
    return choice({ label: param.name, choices: unset === null ? choices : [["", unset], ...choices], value: given ?? (unset === null ? param.default : ""), onchange: changed }).element;
  }

  function remove(index) {
    const [removed] = cases().splice(index, 1);
    onremove();
    show();
    onchange({ dragged: false });
    adder.input.focus();
    announce(`${removed.op} removed`, { quiet: true });
  }

  const adder = finder({
    label: "Add an op", placeholder: "gemm, softmax, attention ...", items: offered.ops.map((op) => ({ value: op.name, text: op.name, hint: op.summary.split(":")[0], group: op.category })),
    onpick(name) {
      if (cases().length >= MAX_CASES) return announce(`at most ${MAX_CASES} ops; remove one first`);
      onadd();
      cases().push({ op: name, values: {} });
      show();
      onchange({ dragged: false });
      announce(`${name} added`, { quiet: true });
      list.lastElementChild.querySelector("input[type=range]")?.focus();
    },
  });
  show();
  return { element: h("div", {}, list, h("div", { class: "panel" }, adder.element)), show };
}

/* Cases from an address that anyone may have written. */
export function sound(cases, otherwise) {
  if (!Array.isArray(cases)) return structuredClone(otherwise);
  return cases.filter((each) => each && typeof each.op === "string").slice(0, MAX_CASES).map((each) => ({ op: each.op, values: each.values && typeof each.values === "object" ? { ...each.values } : {} }));
}
