/* AI against the side of a tile. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

export default async function mount(element, options) {
  const chart = h("div"), output = speaker(), { tiles } = options;
  const refresh = asker("tiling", output, async (result) => {
    Object.assign(element.dataset, { bound: result.bound, intensity: result.intensity });
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  element.append(slider("Side of a tile", tiles, tiles[0], String, (chosen) => refresh({ ...options, chosen })), chart, output);
  await refresh({ ...options, chosen: tiles[0] });
}
