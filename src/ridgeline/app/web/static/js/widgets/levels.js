/* One kernel at every memory level; the tile moves the dot of the level that feeds it. */
import { h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

const TILES = [4, 8, 16, 32, 64, 128, 256];
const tileOf = (text) => Number(/\btile=(\d+)/.exec(text)?.[1]);

export default async function mount(element, options) {
  const chart = h("div"), output = speaker(), rows = h("div"), first = tileOf(options.case);
  const refresh = asker("levels", output, async (result) => {
    element.dataset.limiter = result.limiter;
    say(output, result.answer);
    replace(rows, table(result.table));
    await draw(chart, result.chart, { titles: false });
  });
  if (first) element.append(slider("Side of a tile", TILES, first, String, (tile) => refresh({ ...options, tile })));
  element.append(chart, output, rows);
  await refresh({ ...options });
}
