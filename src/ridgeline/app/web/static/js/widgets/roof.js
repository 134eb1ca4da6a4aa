/* More compute, more bandwidth: the roof moves, and the ridge with it. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

const FACTORS = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4];

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker();
  const { values: first, keep } = page.setting("roof", { compute: [FACTORS, 1], bandwidth: [FACTORS, 1] });
  const state = { ...options, ...first };
  const refresh = asker("roof", output, async (result) => {
    element.dataset.ridge = result.ridge;
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  const control = (label, name) => slider(label, FACTORS, first[name], (factor) => `${factor}x`, (factor) => { state[name] = factor; keep({ [name]: factor }); refresh({ ...state }); });
  element.append(control("Compute", "compute"), control("Bandwidth", "bandwidth"), chart, output);
  await refresh({ ...state });
}
