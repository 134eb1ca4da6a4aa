/* What would another machine bring? */
import { ask, latest } from "../api.js";
import { catalog, choice, exportButtons, machinePicker } from "../controls.js";
import { failure, h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { list, write } from "../state.js";

const CASES = ["gemm m=4096 n=4096 k=4096", "gemm m=1 n=4096 k=4096", "softmax rows=4096 cols=4096", "attention batch=1 heads=32 seq_q=1 seq_kv=8192 head_dim=128"].join("\n");

export async function mount(place, params) {
  const offered = await catalog();
  const state = { machines: list(params, "machines", ["a100-sxm-80gb", "h200-sxm"]), dtype: params.get("dtype") ?? "bf16", ceilings: params.get("ceilings") ?? "", cases: params.get("cases") ?? CASES };
  const answer = h("div", { class: "answer", "aria-live": "polite" }), trouble = h("div"), growth = h("div"), rows = h("div"), chart = h("div"), factors = h("div");
  const question = () => ({ machines: state.machines, dtype: state.dtype, ceilings: state.ceilings || null, lines: state.cases.split("\n").filter((line) => line.trim()) });
  const refresh = latest(async () => {
    write("/compare", { ...state, machines: state.machines.join(",") });
    try {
      const result = await ask("compare", question());
      replace(trouble);
      replace(answer, result.answer.map((line) => h("p", {}, line)));
      replace(growth, h("h3", {}, "Growth"), table(result.growth));
      replace(rows, result.table ? [h("h3", {}, "Your ops"), table(result.table)] : null);
      factors.hidden = !result.factors;
      if (result.factors) await draw(factors, result.factors);
      await draw(chart, result.chart);
    } catch (error) {
      replace(trouble, failure(error)); // the last good answer stays
    }
  });
  let timer = null;
  const cases = h("textarea", { id: "pasted", rows: "8", spellcheck: "false", oninput: () => {
    state.cases = cases.value;
    clearTimeout(timer);
    timer = setTimeout(refresh, 250);
  } });
  cases.value = state.cases;
  place.append(h("h1", { class: "question" }, "What would another machine bring me?"), h("div", { class: "split" },
    h("div", { class: "panel" },
      machinePicker({ machines: offered.machines, chosen: state.machines, min: 2, onchange: (names) => { state.machines = names; refresh(); } }).element,
      choice({ label: "Precision", choices: offered.dtypes, value: state.dtype, onchange: (value) => { state.dtype = value; refresh(); } }).element,
      choice({ label: "Ceilings", choices: [["", "best known"], "stated", "derived", "measured"], value: state.ceilings, onchange: (value) => { state.ceilings = value; refresh(); } }).element,
      h("label", { for: "pasted" }, "Ops, one in a line, or a pasted table with a column op"), cases,
      h("p", { class: "note" }, "The first machine is the one you have; factors are of the last over the first.")),
    h("div", { class: "results" }, trouble, answer, factors, rows, growth, chart, exportButtons("compare", question))));
  await refresh();
  return () => clearTimeout(timer);
}
