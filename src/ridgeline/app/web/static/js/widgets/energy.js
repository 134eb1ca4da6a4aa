/* Work per joule: the dot moves along the curve with the AI. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, slider, speaker } from "../exercise.js";

const INTENSITIES = Array.from({ length: 29 }, (_, index) => Number((2 ** (index / 2 - 2)).toPrecision(3))); // 1/4 to 4096
const text = (value) => `${value < 10 ? Number(value.toPrecision(2)) : Math.round(value)} FLOP/B`;

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker();
  const { values: first, keep } = page.setting("energy", { intensity: [INTENSITIES, INTENSITIES[8]], textbook: [[false, true], false] });
  const state = { ...options, ...first };
  const refresh = asker("energy", output, async (result) => {
    Object.assign(element.dataset, { balance: result.balance, work: result.work_per_joule });
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  const change = (values) => { Object.assign(state, values); return refresh({ ...state }); };
  element.append(slider("Arithmetic intensity", INTENSITIES, state.intensity, text, (intensity) => { keep({ intensity }); change({ intensity }); }),
    radios("Energy figures", [[false, `measured on ${options.on}`], [true, "textbook: 0.3 pJ per FLOP, 20 pJ per byte"]], first.textbook, (textbook) => { keep({ textbook }); change({ textbook }); }), chart, output);
  await change({});
}
