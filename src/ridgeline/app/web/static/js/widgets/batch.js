/* The batch slider across the ridge, on several machines, for a wide layer and a narrow one. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, slider, speaker } from "../exercise.js";

const LAST = 512, NARROW = [1024, 256]; // the second never crosses on most machines

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), signal = h("p", { class: "signal", hidden: true });
  const { machines, dtype } = options;
  const state = { dtype, machines, on: machines[0], in_features: options.in_features, out_features: options.out_features, batch: 1 };
  let before = null; // machine, layer and side of the last answer
  const refresh = asker("batch", output, async (result, asked) => {
    say(output, result.answer);
    Object.assign(element.dataset, { side: result.side, ridge: result.ridge, crossing: result.critical_batch ?? "never" });
    const same = before && before.on === asked.on && before.in_features === asked.in_features;
    const crossed = same && before.side !== result.side;
    if (crossed || !same) signal.hidden = !crossed;
    if (crossed) {
      signal.textContent = `Crossed the ridge: ${result.side}-bound from here on.`;
      page.announce(signal.textContent);
    }
    before = { ...asked, side: result.side };
    await draw(chart, result.chart, { titles: false });
  });
  const change = (values) => { Object.assign(state, values); refresh({ ...state }); };
  const layers = [[options.in_features, options.out_features], ...NARROW.map((side) => [side, side])].filter(([wide, high], index) => index === 0 || wide !== options.in_features || high !== options.out_features);
  element.append(
    slider("Batch", Array.from({ length: LAST }, (_, index) => index + 1), 1, String, (batch) => change({ batch })),
    radios("GPU", machines.map((name) => [name, name]), machines[0], (on) => change({ on })),
    radios("Layer", layers.map(([wide, high], index) => [index, `${wide} × ${high}`]), 0, (index) => change({ in_features: layers[index][0], out_features: layers[index][1] })),
    chart, signal, output);
  await refresh({ ...state });
}
