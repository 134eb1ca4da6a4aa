/* How fast an LLM is served: model, machine, load, formats, layout; prefill and decode side by side. */
import { ask, latest } from "../api.js";
import { catalog, checkbox, choice, exportButtons, finder, machinePicker, slider } from "../controls.js";
import { failure, h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { json, list, write } from "../state.js";

const SIZES = [["batch", "Batch (sequences at a time)", 1024, 8], ["prompt", "Prompt (tokens)", 1 << 17, 2048], ["generate", "Answer (tokens)", 1 << 14, 256]];
const DEGREES = [["tp", "Tensor parallel"], ["pp", "Pipeline stages"], ["dp", "Replicas"], ["ep", "Expert parallel"], ["cp", "Context parallel"]];
const STORED = ["", "bf16", "fp16", "fp8", "int8", "int4_g128", "mxfp4", "nvfp4"];
const DETAILS_AFTER = 350; // ms without another change

export async function mount(place, params) {
  const [choices, engines] = await Promise.all([catalog(), ask("software")]);
  const state = {
    model: params.get("model") ?? "llama-3-8b", config: json(params, "config", null), machine: params.get("machine") ?? "h200-sxm",
    dtype: params.get("dtype") ?? "bf16", weights: params.get("weights") ?? "", kv: params.get("kv") ?? "", software: params.get("software") ?? "",
    ceilings: params.get("ceilings") ?? "", static: params.has("static"), swept: params.get("swept") ?? "batch", others: list(params, "others", ["h100-sxm", "b200-sxm"]).filter((name) => name !== "none"),
  };
  for (const [name, , , start] of SIZES) state[name] = whole(params.get(name), start);
  for (const [name] of DEGREES) state[name] = whole(params.get(name), 1);

  const answer = h("div", { class: "answer", "aria-live": "polite" }), figures = h("dl", { class: "figures" }), chart = h("div"), ops = h("div"), more = h("div", { class: "charts" }), tables = h("div");
  const message = h("div");
  const question = () => ({ ...state, config: state.config ?? undefined, model: state.config ? "" : state.model, weights: state.weights || null, kv: state.kv || null, software: state.software || null, ceilings: state.ceilings || null });
  let timer = null, gone = false;

  const refresh = latest(async () => {
    if (gone) return;
    write("/model", addressed(state));
    clearTimeout(timer);
    try {
      const result = await ask("model", question());
      if (gone) return;
      replace(message);
      replace(answer, result.answer.slice(0, 2).map((line) => h("p", {}, line)), h("details", { class: "notes" }, h("summary", {}, "How this comes about"), result.answer.slice(2).map((line) => h("p", {}, line))));
      replace(figures, result.figures.map(([name, text]) => h("div", {}, h("dt", {}, name), h("dd", {}, text))));
      await draw(chart, result.chart);
      replace(ops, table(result.table));
      timer = setTimeout(detailed, DETAILS_AFTER);
    } catch (error) {
      replace(message, failure(error)); // the last answer stays
    }
  });
  const detailed = latest(async () => {
    try {
      const result = await ask("model/details", { ...question(), swept: state.swept, others: state.others });
      if (gone) return;
      const frames = result.charts.map(() => h("div", { class: "panel" }));
      replace(more, frames);
      for (const [index, picture] of result.charts.entries()) await draw(frames[index], picture);
      replace(tables, result.tables.map((shown) => table(shown)));
    } catch (error) {
      replace(message, failure(error));
    }
  });
  const change = (name) => (value) => { state[name] = value; refresh(); };

  const model = finder({ label: "Model", keep: true, value: state.config ? "pasted config.json" : state.model, placeholder: "llama, qwen, deepseek ...", items: choices.models.map((name) => ({ value: name, text: name })), onpick(name) { state.model = name; state.config = null; pasted.value = ""; refresh(); } });
  const pasted = h("textarea", { id: "config", rows: 4, spellcheck: "false", placeholder: '{"model_type": "llama", ...}', oninput: () => paste() }, state.config ? JSON.stringify(state.config) : "");
  const paste = () => {
    if (!pasted.value.trim()) { state.config = null; model.set(state.model); return refresh(); }
    try {
      state.config = JSON.parse(pasted.value);
      model.set("pasted config.json");
      refresh();
    } catch {
      replace(message, failure(new Error("the pasted text is no JSON; paste a complete config.json")));
    }
  };
  const machine = machinePicker({ machines: choices.machines, chosen: [state.machine], max: 1, label: "Machine", onchange([name]) { state.machine = name; refresh(); } });
  const others = machinePicker({ machines: choices.machines, chosen: state.others, min: 0, label: "Compare with", onchange: change("others") });
  const stored = (name, label) => choice({ label, choices: STORED.map((key) => [key, key || "as arithmetic"]), value: state[name], onchange: change(name) }).element;

  place.append(
    h("h1", { class: "question" }, "How fast can this LLM decode?"),
    h("div", { class: "split" },
      h("div", { class: "work" },
      h("div", { class: "lead results" }, h("div", { class: "answered" }, answer, message), figures, chart),
      h("form", { class: "panel controls", "aria-label": "Model and load", onsubmit: (event) => event.preventDefault() },
        model.element, machine.element,
        SIZES.map(([name, label, max]) => slider({ label, min: 1, max, value: state[name], oninput: change(name) }).element),
        h("fieldset", {}, h("legend", {}, "Formats"),
          choice({ label: "Arithmetic", choices: ["bf16", "fp16", "fp8", "int8", "nvfp4", "fp32"], value: state.dtype, onchange: change("dtype") }).element, stored("weights", "Weights"), stored("kv", "KV cache")),
        h("fieldset", {}, h("legend", {}, "Layout"), DEGREES.map(([name, label]) => slider({ label, min: 1, max: 64, scale: "log2", value: state[name], oninput: change(name) }).element)),
        h("details", {}, h("summary", {}, "More"),
          choice({ label: "Software", choices: [["", "usual serving engine"], ...engines.map((name) => [name, name])], value: state.software, onchange: change("software") }).element,
          choice({ label: "Ceilings", choices: [["", "best known"], "stated", "derived", "measured"], value: state.ceilings, onchange: change("ceilings") }).element,
          checkbox({ label: "Static batching", value: state.static, onchange: change("static") }).element,
          h("label", { for: "config" }, "config.json of another model"), pasted))),
      h("div", { class: "rest results" }, exportButtons("model", () => ({ ...question(), swept: state.swept, others: state.others })), ops,
        h("div", { class: "row" }, choice({ label: "Curve over", choices: ["batch", "prompt"], value: state.swept, onchange: change("swept") }).element, others.element), more, tables)),
  );
  await refresh();
  return () => { gone = true; clearTimeout(timer); };
}

const whole = (text, otherwise) => (Number.isInteger(Number(text)) && Number(text) > 0 ? Number(text) : otherwise);

/* What differs from one visit to the next; degrees of 1 are left out. */
function addressed(state) {
  const { config, others, static: fixed, ...rest } = state;
  const values = { ...rest, others: others.join(",") || "none", static: fixed, config };
  for (const [name] of DEGREES) if (values[name] === 1) delete values[name];
  if (config) delete values.model;
  return values;
}
