/* One kernel at every memory level; the tile moves the dot of the level that feeds it. */
import { h, replace, table } from "../dom.js";
import { draw } from "../draw.js";
import { asker, say, slider, speaker } from "../exercise.js";

const TILES = [4, 8, 16, 32, 64, 128, 256];
const tileOf = (text) => Number(/\btile=(\d+)/.exec(text)?.[1]);

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), rows = h("div"), usual = tileOf(options.case);
  const { values: first, keep } = page.setting("levels", { tile: [TILES, usual] });
  const refresh = asker("levels", output, async (result) => {
    element.dataset.limiter = result.limiter;
    say(output, result.answer);
    replace(rows, table(result.table));
    await draw(chart, result.chart, { titles: false });
  });
  if (usual) element.append(slider("Side of a tile", TILES, first.tile, String, (tile) => { keep({ tile }); refresh({ ...options, tile }); }));
  element.append(chart, output, rows);
  await refresh(usual ? { ...options, tile: first.tile } : { ...options });
}
