/* Machines, ops with sliders, and where they land. */
import { ask, latest } from "../api.js";
import { failure, h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { json, list, write } from "../state.js";

export async function mount(place, params) {
  const catalog = await ask("catalog");
  const state = {
    machines: list(params, "machines", ["h100-sxm"]),
    cases: json(params, "cases", [{ op: "gemm", values: { m: 64, n: 4096, k: 4096, dtype: "bf16" } }]),
    ceilings: params.get("ceilings"),
    levels: params.has("levels"),
  };
  const answer = h("div", { class: "answer" }), chart = h("div");
  place.append(h("div", { class: "split" }, h("div", { class: "panel" }, `${catalog.machines.length} machines`), h("div", {}, answer, chart)));
  const refresh = latest(async () => {
    write("/explore", { machines: state.machines.join(","), cases: state.cases, ceilings: state.ceilings, levels: state.levels });
    try {
      const result = await ask("explore", state);
      replace(answer, result.answer.map((line) => h("p", {}, line)));
      await draw(chart, result.chart);
    } catch (error) {
      replace(answer, failure(error));
    }
  });
  await refresh();
}
