/* A quick check: the first answer counts, every answer is explained. */
import { h, replace } from "../dom.js";
import { fresh, speaker } from "../exercise.js";

export default function mount(element, { question, options, answer, why }, page) {
  const output = speaker(), id = fresh("check");
  let answered = false;
  const buttons = options.map((text, index) => h("button", { type: "button", "aria-pressed": "false", onclick: () => choose(index) }, text));
  function choose(index) {
    const right = index === answer;
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === index)));
    element.dataset.right = right;
    replace(output, h("p", { class: right ? "right" : "wrong" }, right ? "Right." : "Not quite."), right || answered ? h("p", {}, why) : h("p", {}, `The answer is: ${options[answer]}. ${why}`));
    if (!answered) page.score(element.id || id, right ? 1 : 0, 1);
    answered = true;
  }
  output.classList.add("short");
  element.classList.add("quick-check");
  element.append(h("h3", { id }, question), h("div", { class: "buttons stacked", role: "group", "aria-labelledby": id }, buttons), output);
}
