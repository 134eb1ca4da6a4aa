/* The batch slider across the ridge, on several machines, for a wide layer and a narrow one. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, slider, speaker } from "../exercise.js";

const LAST = 512, NARROW = [1024, 256]; // the second never crosses on most machines

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), signal = h("p", { class: "signal", hidden: true });
  const { machines, dtype } = options;
  const layers = [[options.in_features, options.out_features], ...NARROW.map((side) => [side, side])].filter(([wide, high], index) => index === 0 || wide !== options.in_features || high !== options.out_features);
  const batches = Array.from({ length: LAST }, (_, index) => index + 1);
  const { values: first, keep } = page.setting("batch", { size: [batches, 1], on: [machines, machines[0]], layer: [layers.map((_, index) => index), 0] });
  const sides = (layer) => ({ in_features: layers[layer][0], out_features: layers[layer][1] });
  const state = { dtype, machines, on: first.on, batch: first.size, ...sides(first.layer) };
  let before = null; // machine, layer and side of the last answer
  const refresh = asker("batch", output, async (result, asked) => {
    say(output, result.answer);
    Object.assign(element.dataset, { side: result.side, ridge: result.ridge, crossing: result.critical_batch ?? "never" });
    const same = before && before.on === asked.on && before.in_features === asked.in_features;
    const crossed = same && before.side !== result.side;
    if (crossed || !same) signal.hidden = !crossed;
    if (crossed) {
      signal.textContent = `Crossed the ridge: ${result.side}-bound from here on.`;
      page.announce(signal.textContent, { quiet: true });
    }
    before = { ...asked, side: result.side };
    await draw(chart, result.chart, { titles: false });
  });
  const change = (values) => { Object.assign(state, values); refresh({ ...state }); };
  element.append(
    slider("Batch", batches, first.size, String, (batch) => { keep({ size: batch }); change({ batch }); }),
    radios("GPU", machines.map((name) => [name, name]), first.on, (on) => { keep({ on }); change({ on }); }),
    radios("Layer", layers.map(([wide, high], index) => [index, `${wide} × ${high}`]), first.layer, (layer) => { keep({ layer }); change(sides(layer)); }),
    chart, signal, output);
  await refresh({ ...state });
}
