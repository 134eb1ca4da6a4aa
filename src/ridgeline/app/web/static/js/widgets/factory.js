/* Workers and a conveyor belt: drag the steps per part over the break-even point. */
import { h } from "../dom.js";
import { asker, drawBars, say, slider, speaker } from "../exercise.js";

const STEPS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30, 40, 50, 60, 80, 100];

export default async function mount(element, options, page) {
  const bars = h("dl"), output = speaker();
  const { values: first, keep } = page.setting("factory", { steps: [STEPS, 1] });
  const refresh = asker("factory", output, (result) => {
    drawBars(bars, result.bars);
    say(output, result.answer);
  });
  element.append(slider("Steps per part", STEPS, first.steps, String, (steps) => { keep({ steps }); refresh({ steps }); }), bars, output);
  await refresh({ steps: first.steps });
}
