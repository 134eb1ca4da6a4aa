/* AI against the side of a tile. */
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), { tiles } = options;
  const refresh = asker("tiling", output, async (result) => {
    Object.assign(element.dataset, { bound: result.bound, intensity: result.intensity });
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  const { values: first, keep } = page.setting("tiling", { tile: [tiles, tiles[0]] });
  element.append(slider("Side of a tile", tiles, first.tile, String, (tile) => { keep({ tile }); refresh({ ...options, chosen: tile }); }), chart, output);
  await refresh({ ...options, chosen: first.tile });
}
