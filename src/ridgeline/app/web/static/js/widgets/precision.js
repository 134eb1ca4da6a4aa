/* One layer in several number formats: bytes, AI, ridge and time change together, or the weights alone get narrower. */
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, speaker } from "../exercise.js";

const WEIGHTS = ["fp16", "int8", "int4_g128"];

export default async function mount(element, options) {
  const chart = h("div"), output = speaker(), formats = h("div");
  const state = { ...options, chosen: options.dtypes[0], weights_only: false };
  const refresh = asker("precision", output, async (result) => {
    Object.assign(element.dataset, { ridge: result.ridge, bound: result.bound });
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  function choose(weightsOnly) {
    const names = weightsOnly ? WEIGHTS : options.dtypes;
    Object.assign(state, { weights_only: weightsOnly, chosen: names[0] });
    replace(formats, radios("Format", names.map((name) => [name, name]), names[0], (chosen) => { state.chosen = chosen; refresh({ ...state }); }));
    return refresh({ ...state });
  }
  element.append(radios("What gets narrower", [[false, "storage and arithmetic"], [true, "the weights alone, arithmetic in FP16"]], false, choose), formats, chart, output);
  await choose(false);
}
