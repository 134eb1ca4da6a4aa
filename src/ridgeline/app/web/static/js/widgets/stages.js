/* Three recorded versions of one GEMM: both gaps of each, and the roof that applies to it. */
import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { say, speaker } from "../exercise.js";

export default async function mount(element, options, page) {
  const { stages, recorded } = await ask("exercise/stages");
  const chart = h("div"), output = speaker(), what = h("p", { class: "note" }), actions = h("div");
  const { values: first, keep } = page.setting("stages", { stage: [stages.map((_, index) => index + 1), 1] });
  const buttons = stages.map(({ title }, index) => h("button", { type: "button", onclick: () => show(index) }, title));
  async function show(index) {
    const stage = stages[index];
    keep({ stage: index + 1 });
    buttons.forEach((button, place) => (place === index ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current")));
    Object.assign(element.dataset, { roof: stage.roof, stage: index + 1 });
    what.textContent = `This version: ${stage.what}.`;
    say(output, stage.answer);
    replace(actions, stage.actions.length ? [h("p", {}, "What the pipelined version does, none of which changes the bytes:"), h("ol", {}, stage.actions.map((text) => h("li", {}, text)))] : []);
    await draw(chart, stage.chart, { titles: false });
  }
  element.append(h("div", { class: "buttons", role: "group", "aria-label": "Stage" }, buttons), what, chart, output, actions, h("p", { class: "note" }, recorded));
  await show(first.stage - 1);
}
