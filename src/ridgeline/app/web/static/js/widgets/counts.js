/* Two ops by turns: the bars of compute and memory swap, the intensity changes. */
import { ask } from "../api.js";
import { h } from "../dom.js";
import { drawBars, radios, say, speaker } from "../exercise.js";

export default async function mount(element, options) {
  const { cases } = await ask("exercise/counts", options);
  const bars = h("dl"), output = speaker();
  const show = (index) => {
    drawBars(bars, cases[index].bars);
    say(output, cases[index].answer);
  };
  element.append(radios("Operation", cases.map((item, index) => [index, item.title]), 0, show), bars, h("p", { class: "note" }, "Bars: time of each, as a share of the longer one."), output);
  show(0);
}
