/* Machines, ops with sliders, and where they land: the dot moves while a slider is dragged. */
import { ask, latest } from "../api.js";
import { caseForms, sound } from "../cases.js";
import { catalog, checkbox, choice, exportButtons, finder, machinePicker } from "../controls.js";
import { failure, h, replace, table } from "../dom.js";
import { draw, shownPlane } from "../draw.js";
import { json, list, write } from "../state.js";

const START = [{ op: "gemm", values: { m: 64, n: 4096, k: 4096, dtype: "bf16" } }];
const PRESETS = [
  ["Decode step: one token through a linear layer", ["h100-sxm"], [{ op: "linear", values: { batch: 1, in_features: 4096, out_features: 4096, dtype: "bf16" } }]],
  ["Prefill: the same layer with 4096 tokens", ["h100-sxm"], [{ op: "linear", values: { batch: 4096, in_features: 4096, out_features: 4096, dtype: "bf16" } }]],
  ["Vector add against matrix product", ["a100-sxm-80gb"], [{ op: "add", values: { n: 1 << 24, dtype: "fp32" } }, { op: "gemm", values: { m: 1024, n: 1024, k: 1024, dtype: "fp32" } }]],
  ["Attention: flash or standard?", ["h100-sxm"], ["flash", "standard"].map((variant) => ({ op: "attention", values: { batch: 4, heads: 32, seq_q: 2048, head_dim: 128, variant, dtype: "bf16" } }))],
  ["One layer of a transformer on three GPUs", ["a100-sxm-80gb", "h100-sxm", "b200-sxm"], [{ op: "gemm", values: { m: 2048, n: 4096, k: 4096, dtype: "bf16" } }, { op: "rmsnorm", values: { rows: 2048, cols: 4096, dtype: "bf16" } }]],
];

export async function mount(place, params) {
  const offered = await catalog();
  const state = {
    machines: list(params, "machines", ["h100-sxm"]), cases: sound(json(params, "cases", START), START),
    ceilings: params.get("ceilings") ?? "", levels: params.has("levels"), dtype: params.get("dtype") ?? "",
    chosen: json(params, "chosen", null), changes: list(params, "do"),
  };
  const answer = h("div", { class: "answer", "aria-live": "polite" }), chart = h("div", { class: "shown" }), rows = h("div"), cardPlace = h("div");
  const trouble = h("div");
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

  const ops = caseForms({
    offered, cases: () => state.cases, onchange: refresh, onsettle: settle, onadd: () => remember(true),
    onremove() {
      if (state.chosen) { state.chosen = null; state.changes = []; showCard(); }
      remember(true);
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
    ops.show();
    update();
    showCard();
  } });
  place.append(
    h("h1", { class: "hidden" }, "Rooflines"),
    h("div", { class: "split" },
      h("div", { class: "work" },
        h("div", { class: "lead results" }, h("div", { class: "answered" }, answer, trouble), chart),
        h("div", { class: "controls" }, h("div", { class: "panel" }, presets.element, machines.element, ceilings.element, dtype.element, levels.element), ops.element)),
      h("div", { class: "rest results" }, exportButtons("explore", question), rows, cardPlace)));
  await refresh();
  if (state.chosen) await showCard();
}

const same = (a, b) => Boolean(a && b) && a[0] === b[0] && a[1] === b[1];

/* Facts of a case as a list of terms. */
const pairs = (facts) => h("div", {}, h("dl", { class: "facts" }, facts.cells.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])), facts.notes.map((note) => h("p", { class: "note" }, note)));
