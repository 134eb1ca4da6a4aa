/* Cards of machines in order, what each step brought, and their rooflines on one chart. */
import { ask } from "../api.js";
import { h } from "../dom.js";
import { draw } from "../draw.js";

export default async function mount(element, options) {
  const result = await ask("exercise/generations", options);
  const chart = h("div");
  element.append(
    h("div", { class: "generations" }, result.cards.map((card) => h("section", { class: "generation", "data-machine": card.name },
      h("h3", {}, card.title), h("dl", {}, card.facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])), card.gains ? h("p", {}, card.gains) : null))),
    h("ul", {}, result.answer.map((line) => h("li", {}, line))), chart);
  await draw(chart, result.chart);
}
