/* Data-parallel training: GPUs and tokens move the dot under the roof of a link. */
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, slider, speaker } from "../exercise.js";

const DEVICES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const TOKENS = Array.from({ length: 12 }, (_, index) => 2 ** (12 + index));

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), links = h("div");
  const fields = { devices: [DEVICES, 8], tokens: [TOKENS, 32768] }, { values: first, keep } = page.setting("communication", fields);
  const state = { ...options, ...first, link: null };
  const refresh = asker("communication", output, async (result) => {
    Object.assign(element.dataset, { bound: result.bound, limit: result.limit });
    if (!links.children.length) {
      const link = page.setting("communication", { link: [result.links.map(([name]) => name), result.link] });
      replace(links, radios("Link", result.links, link.values.link, (name) => { link.keep({ link: name }); change({ link: name }); }));
      if (link.values.link !== result.link) return void change({ link: link.values.link });
    }
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  const change = (values) => { Object.assign(state, values); return refresh({ ...state }); };
  element.append(slider("GPUs", DEVICES, first.devices, String, (devices) => { keep({ devices }); change({ devices }); }),
    slider("Tokens per step", TOKENS, first.tokens, (tokens) => tokens.toLocaleString("en"), (tokens) => { keep({ tokens }); change({ tokens }); }), links, chart, output);
  await change({});
}
