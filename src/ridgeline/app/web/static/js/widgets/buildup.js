/* The chart in four strokes, forwards and backwards. A new line is drawn from its beginning, unless motion is unwelcome. */
import { ask } from "../api.js";
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { say, speaker, still } from "../exercise.js";

export default async function mount(element, options, page) {
  const { steps } = await ask("exercise/buildup", options);
  const chart = h("div"), output = speaker();
  const { values: first, keep } = page.setting("buildup", { step: [steps.map((_, index) => index + 1), 1] });
  let current = 0;
  const choices = steps.map(({ title }, index) => h("button", { type: "button", onclick: () => show(index) }, `${index + 1} ${title}`));
  const back = h("button", { type: "button", onclick: () => show(current - 1) }, "Back");
  const next = h("button", { type: "button", class: "primary", onclick: () => show(current + 1) }, "Next");
  async function show(index) {
    const before = steps[current].chart.lines.length;
    current = Math.min(Math.max(index, 0), steps.length - 1);
    element.dataset.step = String(current + 1);
    keep({ step: current + 1 });
    choices.forEach((button, place) => (place === current ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current")));
    back.disabled = current === 0;
    next.disabled = current === steps.length - 1;
    say(output, steps[current].answer);
    await draw(chart, steps[current].chart, { titles: false });
    if (!still()) [...chart.querySelectorAll(".scatterlayer path.js-line")].slice(before).forEach(stroke);
  }
  element.append(h("div", { class: "buttons", role: "group", "aria-label": "Steps of the chart" }, choices), chart, output, h("div", { class: "buttons" }, back, next));
  await show(first.step - 1);
}

function stroke(path) {
  const length = path.getTotalLength();
  path.animate([{ strokeDasharray: `${length} ${length}`, strokeDashoffset: length }, { strokeDasharray: `${length} ${length}`, strokeDashoffset: 0 }], { duration: 700, easing: "ease-out" });
}
