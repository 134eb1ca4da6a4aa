/* Flash cards against the clock: ridge, AI and regime. Keys alone are enough: a number and Enter, or the first letter of a regime.
   `seed` in the address gives the same cards again. */
import { ask } from "../api.js";
import { failure, h, replace } from "../dom.js";
import { fresh, speaker } from "../exercise.js";
import { read } from "../state.js";

const TICK = 250; // milliseconds

export default function mount(element, { seconds }, page) {
  const clock = h("p", { class: "drill-clock", role: "timer" }), place = h("div", { class: "drill-card" }), output = speaker(), log = h("ol", { class: "drill-log" });
  const start = h("button", { type: "button", class: "primary", onclick: begin }, `Start: ${seconds} seconds`);
  let seed = 0, number = 0, right = 0, done = 0, end = 0, timer = null, busy = false;

  async function begin() {
    const wanted = Number.parseInt(read().params.get("seed"), 10);
    seed = Number.isInteger(wanted) && wanted >= 0 ? wanted % 2 ** 31 : Math.floor(Math.random() * 2 ** 31);
    number = right = done = 0;
    replace(output);
    replace(log);
    delete element.dataset.over;
    start.hidden = true;
    end = performance.now() + 1000 * seconds;
    timer = setInterval(tick, TICK);
    tick();
    await show();
  }
  function tick() {
    const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    clock.textContent = `${left} s left, ${right} of ${done} right`;
    if (performance.now() >= end) finish();
  }
  function finish() {
    clearInterval(timer);
    timer = null;
    replace(place);
    clock.textContent = "";
    const text = `Time is up: ${right} of ${done} right.`;
    replace(output, h("p", {}, text), done ? h("p", {}, "Numbers count within 30 %. Below is every card with its answer.") : null);
    page.announce(text, { quiet: true });
    if (done) page.score("drill", right, done);
    start.textContent = "Again";
    start.hidden = false;
    start.focus({ preventScroll: true });
    element.dataset.over = `${right}/${done}`;
  }
  async function show() {
    try {
      const card = await ask("exercise/drill", { seed, number });
      if (timer === null) return;
      const id = fresh("card");
      element.dataset.number = number;
      replace(place, h("p", { class: "verdict", id }, card.question), card.choices.length ? choices(card, id) : field(card, id));
      place.querySelector("input, button").focus({ preventScroll: true });
    } catch (error) {
      replace(place, failure(error));
    }
  }
  function choices(card, id) {
    const buttons = card.choices.map((regime) => h("button", { type: "button", onclick: () => give(regime) }, h("u", {}, regime[0]), `${regime.slice(1)}-bound`));
    const keys = (event) => {
      const regime = card.choices.find((each) => each[0] === event.key.toLowerCase());
      if (regime && !event.ctrlKey && !event.metaKey && !event.altKey) give(regime);
    };
    return h("div", { class: "buttons", role: "group", "aria-labelledby": id, onkeydown: keys }, buttons);
  }
  function field(card, id) {
    const input = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", "aria-labelledby": id, size: "8" });
    return h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (input.value.trim()) give(input.value); } }, input, h("span", {}, card.unit), h("button", { type: "submit" }, "Enter"));
  }
  async function give(given) {
    if (busy || timer === null) return;
    busy = true;
    try {
      const result = await ask("exercise/drill/answer", { seed, number, given });
      if (timer === null) return; // too late
      done += 1;
      right += result.right ? 1 : 0;
      replace(output, h("p", { class: result.right ? "right" : "wrong" }, result.answer[0]));
      log.append(h("li", {}, `${result.question} `, h("b", { class: result.right ? "right" : "wrong" }, result.answer[0])));
      number += 1;
      tick();
      if (timer !== null) await show();
    } catch (error) {
      replace(output, failure(error)); // not a number: the card stays
    } finally {
      busy = false;
    }
  }
  element.append(h("p", {}, "Type a number and press Enter, or press the first letter of a regime: m, c or o. A fraction such as 1/6 is a number too."), start, clock, place, output, log);
  return () => clearInterval(timer);
}
