/* Data-parallel training: GPUs and tokens move the dot under the roof of a link. */
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, slider, speaker } from "../exercise.js";

const DEVICES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const TOKENS = Array.from({ length: 12 }, (_, index) => 2 ** (12 + index));

export default async function mount(element, options) {
  const chart = h("div"), output = speaker(), links = h("div");
  const state = { ...options, devices: 8, tokens: 32768, link: null };
  const refresh = asker("communication", output, async (result) => {
    Object.assign(element.dataset, { bound: result.bound, limit: result.limit });
    if (!links.children.length) replace(links, radios("Link", result.links, result.link, (link) => change({ link })));
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  const change = (values) => { Object.assign(state, values); return refresh({ ...state }); };
  element.append(slider("GPUs", DEVICES, 8, String, (devices) => change({ devices })),
    slider("Tokens per step", TOKENS, 32768, (tokens) => tokens.toLocaleString("en"), (tokens) => change({ tokens })), links, chart, output);
  await change({});
}
