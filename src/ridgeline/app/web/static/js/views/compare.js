/* What would another machine bring? */
import { ask, latest } from "../api.js";
import { caseForms, sound } from "../cases.js";
import { catalog, choice, exportButtons, machinePicker } from "../controls.js";
import { announce, failure, h, replace, table } from "../dom.js";
import { draw, shownPlane } from "../draw.js";
import { json, list, write } from "../state.js";

const START = [
  { op: "gemm", values: { m: 4096, n: 4096, k: 4096 } }, { op: "gemm", values: { m: 1, n: 4096, k: 4096 } }, { op: "softmax", values: { rows: 4096, cols: 4096 } },
  { op: "attention", values: { batch: 1, heads: 32, seq_q: 1, seq_kv: 8192, head_dim: 128 } },
];

export async function mount(place, params) {
  const offered = await catalog();
  const state = {
    machines: list(params, "machines", ["a100-sxm-80gb", "h200-sxm"]), dtype: params.get("dtype") ?? "bf16", ceilings: params.get("ceilings") ?? "",
    cases: sound(json(params, "cases", START), START), pasted: params.get("pasted") ?? "",
  };
  const answer = h("div", { class: "answer", "aria-live": "polite" }), trouble = h("div"), growth = h("div"), rows = h("div"), chart = h("div", { class: "shown" }), factors = h("div");
  const lines = () => state.pasted.split("\n").filter((line) => line.trim());
  const question = () => ({ machines: state.machines, dtype: state.dtype, ceilings: state.ceilings || null, cases: lines().length ? [] : state.cases, lines: lines() });
  const remember = (push = false) => write("/compare", { ...state, machines: state.machines.join(","), cases: lines().length ? null : state.cases }, push);
  const refresh = latest(async ({ dragged = false } = {}) => {
    remember();
    try {
      const result = await ask("compare", { ...question(), plane: dragged ? shownPlane(chart) : null });
      replace(trouble);
      replace(answer, result.answer.map((line) => h("p", {}, line)));
      factors.hidden = !result.factors;
      if (result.factors) await draw(factors, result.factors);
      await draw(chart, result.chart);
      replace(rows, result.table ? [h("h2", {}, "Times"), table(result.table)] : null);
      replace(growth, h("h2", {}, "Peak, bandwidth and ridge"), table(result.growth));
    } catch (error) {
      replace(trouble, failure(error)); // the last good answer stays
    }
  });
  const ops = caseForms({ offered, cases: () => state.cases, formats: "as above", onchange: refresh, onadd: () => remember(true), onremove: () => remember(true) });
  const machines = machinePicker({ machines: offered.machines, chosen: state.machines, min: 2, onchange(names) { state.machines = names; remember(true); refresh(); } });
  const swap = h("button", { type: "button", class: "swap", title: "The last machine becomes the one you have", onclick: () => {
    state.machines = [...state.machines].reverse();
    machines.set(state.machines);
    remember(true);
    refresh();
    announce(`compared with ${state.machines[0]}`, { quiet: true });
  } }, "⇄ Swap");
  let timer = null;
  const pasted = h("textarea", { id: "pasted", rows: "6", spellcheck: "false", placeholder: "gemm m=1 n=4096 k=4096\nsoftmax rows=4096 cols=4096", oninput: () => {
    state.pasted = pasted.value;
    ops.element.hidden = lines().length > 0;
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  } });
  pasted.value = state.pasted;
  ops.element.hidden = lines().length > 0;
  place.append(h("h1", { class: "question" }, "What would another machine bring me?"), h("div", { class: "split" },
    h("div", { class: "work" },
      h("div", { class: "lead results" }, h("div", { class: "answered" }, answer, trouble), factors, chart),
      h("div", { class: "controls" },
        h("div", { class: "panel" },
          machines.element, h("div", { class: "row" }, swap, h("span", { class: "note" }, "The first is the one you have.")),
          choice({ label: "Precision", choices: offered.dtypes, value: state.dtype, onchange: (value) => { state.dtype = value; refresh(); } }).element,
          choice({ label: "Ceilings", choices: [["", "best known"], "stated", "derived", "measured"], value: state.ceilings, onchange: (value) => { state.ceilings = value; refresh(); } }).element),
        ops.element,
        h("details", { class: "panel", open: Boolean(state.pasted) }, h("summary", {}, "Paste ops"),
          h("label", { for: "pasted" }, "One op in a line, or a table with a column op; these take the place of the sliders"), pasted))),
    h("div", { class: "rest results" }, exportButtons("compare", question), rows, growth)));
  await refresh();
  return () => clearTimeout(timer);
}
