/* Machines, ops with sliders, and where they land: the dot moves while a slider is dragged. */
import { ask, latest } from "../api.js";
import { catalog, checkbox, choice, exportButtons, finder, machinePicker, slider } from "../controls.js";
import { announce, failure, h, replace, table } from "../dom.js";
import { draw, shownPlane } from "../draw.js";
import { json, list, write } from "../state.js";

const START = [{ op: "gemm", values: { m: 64, n: 4096, k: 4096, dtype: "bf16" } }];
const MAX_CASES = 24;
const SIZES = ["Size", "Count"];
const PRESETS = [
  ["Decode step: one token through a linear layer", ["h100-sxm"], [{ op: "linear", values: { batch: 1, in_features: 4096, out_features: 4096, dtype: "bf16" } }]],
  ["Prefill: the same layer with 4096 tokens", ["h100-sxm"], [{ op: "linear", values: { batch: 4096, in_features: 4096, out_features: 4096, dtype: "bf16" } }]],
  ["Vector add against matrix product", ["a100-sxm-80gb"], [{ op: "add", values: { n: 1 << 24, dtype: "fp32" } }, { op: "gemm", values: { m: 1024, n: 1024, k: 1024, dtype: "fp32" } }]],
  ["Attention: flash or standard?", ["h100-sxm"], ["flash", "standard"].map((variant) => ({ op: "attention", values: { batch: 4, heads: 32, seq_q: 2048, head_dim: 128, variant, dtype: "bf16" } }))],
  ["One layer of a transformer on three GPUs", ["a100-sxm-80gb", "h100-sxm", "b200-sxm"], [{ op: "gemm", values: { m: 2048, n: 4096, k: 4096, dtype: "bf16" } }, { op: "rmsnorm", values: { rows: 2048, cols: 4096, dtype: "bf16" } }]],
];

export async function mount(place, params) {
  const offered = await catalog();
  const ops = new Map(offered.ops.map((op) => [op.name, op]));
  const state = {
    machines: list(params, "machines", ["h100-sxm"]), cases: sound(json(params, "cases", START), START),
    ceilings: params.get("ceilings") ?? "", levels: params.has("levels"), dtype: params.get("dtype") ?? "",
    chosen: json(params, "chosen", null), changes: list(params, "do"),
  };
  const answer = h("div", { class: "answer", "aria-live": "polite" }), chart = h("div", { class: "shown" }), rows = h("div"), cardPlace = h("div");
  const trouble = h("div"), caseList = h("div", { class: "cases" });
  const question = () => ({ machines: state.machines, cases: state.cases, ceilings: state.ceilings || null, levels: state.levels, dtype: state.dtype || null });
  const remember = (push = false) => write("/explore", {
    machines: state.machines.join(","), cases: state.cases, ceilings: state.ceilings, levels: state.levels, dtype: state.dtype, chosen: state.chosen, do: state.changes.join(","),
  }, push);

  // while a slider is dragged dots move on axes that stay
  const refresh = latest(async ({ dragged = false } = {}) => {
    remember();
    try {
      const result = await ask("explore", { ...question(), plane: dragged ? shownPlane(chart) : null });
      replace(trouble);
      replace(answer, result.answer.map((line) => h("p", {}, line)));
      await draw(chart, result.chart, { onPoint: (point) => point.case && choose(point.case), selected: (point) => same(point.case, state.chosen) });
      replace(rows, state.cases.length ? table(result.table, { row: rowOf }) : null);
      chart.dispatchEvent(new CustomEvent("shown"));
    } catch (error) {
      replace(trouble, failure(error)); // the last good chart stays
    }
  });
  const showCard = latest(async () => {
    remember();
    const at = picked();
    if (!at) return void replace(cardPlace);
    try {
      const asked = { op: at.case.op, values: at.case.values, machine: at.machine, ceilings: state.ceilings || null };
      const [facts, changed] = await Promise.all([ask("explore/card", asked), state.changes.length ? ask("explore/changes", { ...asked, changes: state.changes }) : null]);
      if (picked()) await card(facts, changed, at);
    } catch (error) {
      replace(cardPlace, failure(error));
    }
  });
  const update = () => { refresh(); };
  const settle = () => { if (state.chosen) showCard(); };

  const rowOf = (element, index) => {
    const at = [Math.floor(index / state.machines.length), index % state.machines.length];
    element.tabIndex = 0;
    element.classList.add("pick");
    element.setAttribute("aria-selected", String(same(at, state.chosen)));
    element.addEventListener("click", () => choose(at));
    element.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(at); });
  };
  const picked = () => {
    const [number, machine] = state.chosen ?? [];
    return state.cases[number] && state.machines[machine] ? { case: state.cases[number], machine: state.machines[machine], number } : null;
  };
  function choose(at) {
    state.chosen = same(at, state.chosen) ? null : at;
    if (!state.chosen) state.changes = [];
    refresh();
    showCard();
  }

  async function card(facts, changed, at) {
    const arrows = h("div");
    const offer = (row) => {
      const box = h("input", { type: "checkbox", checked: state.changes.includes(row.change), onchange: () => {
        state.changes = box.checked ? [...state.changes, row.change] : state.changes.filter((each) => each !== row.change);
        showCard();
      } });
      return h("tr", {}, h("td", {}, h("label", {}, box, ` ${row.name}`)), h("td", { class: "n" }, row.time), h("td", { class: `n ${row.ratio >= 1 ? "right" : "wrong"}` }, row.speedup), h("td", {}, row.bound), h("td", {}, row.moves));
    };
    const others = state.changes.filter((each) => !facts.changes.some((row) => row.change === each));
    replace(cardPlace, h("section", { class: "panel card", "aria-label": "The chosen case" },
      h("div", { class: "row between" }, h("h2", {}, facts.answer.at(-1)), h("button", { type: "button", "aria-label": "Close the card", onclick: () => choose(state.chosen) }, "×")),
      h("p", { class: "verdict" }, facts.answer[0]),
      h("div", { class: "columns" },
        h("div", {}, h("h3", {}, "Facts"), pairs(facts.facts)),
        h("div", {}, h("h3", {}, "What would a change bring?"),
          facts.changes.length ? h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["change", "time", "speedup", "then", "moves"].map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, facts.changes.map(offer)))) : h("p", { class: "muted" }, "No change is known to matter."),
          others.length ? h("p", { class: "note" }, `also in the chain: ${others.join(", ")}`) : null,
          machineChange(at), h("p", { class: "note" }, "Each is priced alone, from the case as it is. Tick several: they apply one after the other, in the order chosen."))),
      arrows,
      h("details", {}, h("summary", {}, "Where every number comes from"), facts.explain.map((each) => table(each)))));
    if (!changed) return;
    const picture = h("div");
    replace(arrows, h("h3", {}, "The chain"), changed.answer.map((line) => h("p", {}, line)), changed.chart ? picture : null, table(changed.table));
    if (changed.chart) await draw(picture, changed.chart, { titles: false });
  }
  const machineChange = (at) => finder({
    label: "On another machine", placeholder: "b200 ...", items: offered.machines.filter((each) => each.name !== at.machine).map((each) => ({ value: each.name, text: each.name, hint: each.title })),
    onpick: (name) => { state.changes = [...state.changes.filter((each) => !each.startsWith("machine=")), `machine=${name}`]; showCard(); },
  }).element;

  function caseForm(entry, index) {
    const op = ops.get(entry.op);
    const change = (name, value, dragged = false) => {
      if (value === "" || value === null) delete entry.values[name];
      else entry.values[name] = value;
      refresh({ dragged });
    };
    const control = (param) => {
      const now = entry.values[param.name] ?? (SIZES.includes(param.kind) ? param.default ?? (param.required ? param.start : "") : param.default ?? "");
      if (SIZES.includes(param.kind)) {
        if (param.required && entry.values[param.name] === undefined) entry.values[param.name] = now;
        return slider({ label: param.name, min: param.min, max: param.max, value: now, oninput: (value) => change(param.name, value, true), onchange: settle }).element;
      }
      if (param.kind === "Flag") return checkbox({ label: param.name, value: now, onchange: (on) => { change(param.name, on ? "yes" : "no"); settle(); } }).element;
      const choices = param.kind === "Format" ? offered.dtypes : param.choices;
      const all = param.default === null ? [["", "as the others"], ...choices] : choices;
      return choice({ label: param.name, choices: all, value: now, onchange: (value) => { change(param.name, value); settle(); } }).element;
    };
    const main = op ? op.params.filter((param) => param.required || param.name === "dtype") : [], other = op ? op.params.filter((param) => !main.includes(param)) : [];
    return h("section", { class: "panel case", "aria-label": `op ${index + 1}: ${entry.op}` },
      h("div", { class: "row between" }, h("h3", {}, entry.op), h("button", { type: "button", "aria-label": `Remove ${entry.op}`, onclick: () => removeCase(index) }, "×")),
      op ? h("p", { class: "note" }, op.summary) : h("p", { class: "error" }, "no op of this name"),
      main.map(control), other.length ? h("details", { open: other.some((param) => entry.values[param.name] !== undefined) }, h("summary", {}, "more"), other.map(control)) : null);
  }
  const showCases = () => replace(caseList, state.cases.map(caseForm));
  const removeCase = (index) => {
    const removed = state.cases.splice(index, 1);
    if (state.chosen) { state.chosen = null; state.changes = []; showCard(); }
    remember(true);
    showCases();
    update();
    addOp.input.focus();
    announce(`${removed[0].op} removed`);
  };
  const addOp = finder({
    label: "Add an op", placeholder: "gemm, softmax, attention ...", items: offered.ops.map((op) => ({ value: op.name, text: op.name, hint: op.summary.split(":")[0], group: op.category })),
    onpick(name) {
      if (state.cases.length >= MAX_CASES) return announce(`at most ${MAX_CASES} ops; remove one first`);
      remember(true);
      state.cases.push({ op: name, values: {} });
      showCases();
      update();
      announce(`${name} added`);
      caseList.lastElementChild.querySelector("input[type=range]")?.focus();
    },
  });
  const machines = machinePicker({ machines: offered.machines, chosen: state.machines, onchange(names) {
    state.machines = names;
    if (state.chosen && state.chosen[1] >= names.length) state.chosen = null;
    remember(true);
    update();
    settle();
  } });
  const ceilings = choice({ label: "Ceilings", choices: [["", "best known"], "stated", "derived", "measured"], value: state.ceilings, onchange: (value) => { state.ceilings = value; update(); settle(); } });
  const levels = checkbox({ label: "all memory levels", value: state.levels, title: "every level and several compute roofs of a single machine", onchange: (on) => { state.levels = on; update(); } });
  const dtype = choice({ label: "Roof for", choices: [["", "the formats of the ops"], ...offered.dtypes], value: state.dtype, onchange: (value) => { state.dtype = value; update(); } });
  const presets = choice({ label: "Example", choices: [["", "choose ..."], ...PRESETS.map(([text], index) => [String(index), text])], value: "", onchange(value) {
    if (value === "") return;
    const [, names, cases] = PRESETS[Number(value)];
    Object.assign(state, { machines: [...names], cases: structuredClone(cases), chosen: null, changes: [] });
    remember(true);
    machines.set(state.machines);
    showCases();
    update();
    showCard();
  } });
  place.append(
    h("h1", { class: "hidden" }, "Rooflines"),
    h("div", { class: "split" },
      h("div", { class: "controls" }, h("div", { class: "panel" }, presets.element, machines.element, ceilings.element, dtype.element, levels.element), caseList, h("div", { class: "panel" }, addOp.element)),
      h("div", { class: "results" }, trouble, answer, chart, exportButtons("explore", question), rows, cardPlace)));
  showCases();
  await refresh();
  if (state.chosen) await showCard();
}

const same = (a, b) => Boolean(a && b) && a[0] === b[0] && a[1] === b[1];

/* Facts of a case as a list of terms. */
const pairs = (facts) => h("div", {}, h("dl", { class: "facts" }, facts.cells.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])), facts.notes.map((note) => h("p", { class: "note" }, note)));

/* Cases from an address that anyone may have written. */
function sound(cases, otherwise) {
  if (!Array.isArray(cases)) return structuredClone(otherwise);
  return cases.filter((each) => each && typeof each.op === "string").slice(0, MAX_CASES).map((each) => ({ op: each.op, values: each.values && typeof each.values === "object" ? { ...each.values } : {} }));
}
