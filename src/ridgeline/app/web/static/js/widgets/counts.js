/* Two ops by turns: the bars of compute and memory swap, the intensity changes. */
import { ask } from "../api.js";
import { h } from "../dom.js";
import { drawBars, radios, say, speaker } from "../exercise.js";

export default async function mount(element, options, page) {
  const { cases } = await ask("exercise/counts", options);
  const bars = h("dl"), output = speaker();
  const { values: first, keep } = page.setting("counts", { case: [cases.map((_, index) => index), 0] });
  const show = (index) => {
    drawBars(bars, cases[index].bars);
    say(output, cases[index].answer);
  };
  element.append(radios("Operation", cases.map((item, index) => [index, item.title]), first.case, (index) => { keep({ case: index }); show(index); }), bars, h("p", { class: "note" }, "Bars: time of each, as a share of the longer one."), output);
  show(first.case);
}
