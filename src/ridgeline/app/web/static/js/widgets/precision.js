/* One layer in several number formats: bytes, AI, ridge and time change together, or the weights alone get narrower. */
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { asker, radios, say, speaker } from "../exercise.js";

const WEIGHTS = ["fp16", "int8", "int4_g128"];

export default async function mount(element, options, page) {
  const chart = h("div"), output = speaker(), formats = h("div");
  const namesOf = (weightsOnly) => (weightsOnly ? WEIGHTS : options.dtypes);
  const narrower = page.setting("precision", { weights: [[false, true], false] });
  const formatOf = (weightsOnly) => page.setting("precision", { format: [namesOf(weightsOnly), namesOf(weightsOnly)[0]] });
  const state = { ...options, chosen: options.dtypes[0], weights_only: false };
  const refresh = asker("precision", output, async (result) => {
    Object.assign(element.dataset, { ridge: result.ridge, bound: result.bound });
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  });
  function choose(weightsOnly, chosen = namesOf(weightsOnly)[0]) {
    const format = formatOf(weightsOnly);
    Object.assign(state, { weights_only: weightsOnly, chosen });
    narrower.keep({ weights: weightsOnly });
    format.keep({ format: chosen });
    replace(formats, radios("Format", namesOf(weightsOnly).map((name) => [name, name]), chosen, (name) => { state.chosen = name; format.keep({ format: name }); refresh({ ...state }); }));
    return refresh({ ...state });
  }
  element.append(radios("What gets narrower", [[false, "storage and arithmetic"], [true, "the weights alone, arithmetic in FP16"]], narrower.values.weights, (weightsOnly) => choose(weightsOnly)), formats, chart, output);
  await choose(narrower.values.weights, formatOf(narrower.values.weights).values.format);
}
