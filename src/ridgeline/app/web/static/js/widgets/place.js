/* Choose an op, click the side of the ridge where it belongs, be told, and see the dot move to its place. */
import { ask } from "../api.js";
import { h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { layer, radios, say, speaker, still } from "../exercise.js";

export default async function mount(element, options, page) {
  const answers = options.cases.map(() => null); // of the first try, which counts
  const chart = h("div"), output = speaker(), tally = h("p", { class: "note" });
  const plane = layer(chart, "Roofline. Click left or right of the ridge; the left and right arrow keys choose a side as well.");
  const guess = h("div", { class: "spot guess", hidden: true }), dot = h("div", { class: "spot moving", hidden: true });
  plane.overlay.append(guess, dot);
  let chosen = 0, ridge = null;
  const sides = [["left", "Left: memory-bound"], ["right", "Right: compute-bound"]].map(([side, label]) => h("button", { type: "button", onclick: () => answer(side) }, label));
  const overview = h("button", { type: "button", hidden: true, onclick: showAll }, "Show all of them");

  async function question(index) {
    chosen = index;
    guess.hidden = dot.hidden = true;
    delete element.dataset.right;
    const result = await ask("exercise/place", { ...options, chosen });
    ridge = result.chart.marks.find((mark) => mark.role === "ridge").value;
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
    plane.fit();
  }
  /* By a button or a key: half way from the ridge to the edge of that side, at the height of the middle. */
  function answer(side) {
    const { px } = plane.pixel({ x: ridge, y: 1 }), wide = plane.overlay.clientWidth;
    check({ px: side === "left" ? px / 2 : (px + wide) / 2, py: plane.overlay.clientHeight / 2 });
  }
  async function check({ px, py }) {
    const asked = chosen;
    const result = await ask("exercise/place", { ...options, chosen, guess: plane.value(px, py).x });
    if (asked !== chosen) return;
    answers[chosen] ??= result.right;
    element.dataset.right = result.right;
    replace(output, h("p", { class: result.right ? "right" : "wrong" }, result.answer[0]), result.answer.slice(1).map((line) => h("p", {}, line)));
    const done = answers.filter((each) => each !== null).length, right = answers.filter(Boolean).length;
    tally.textContent = `${right} of ${done} right at the first try, ${answers.length - done} to go`;
    page.score("place", right, answers.length);
    overview.hidden = done < answers.length;
    await move({ px, py }, plane.pixel(result.spot));
    if (asked !== chosen) return;
    await draw(chart, result.chart, { titles: false });
    dot.hidden = true;
  }
  async function move(from, to) {
    Object.assign(guess.style, { left: `${from.px}px`, top: `${from.py}px` });
    Object.assign(dot.style, { transition: "none", left: `${from.px}px`, top: `${from.py}px` });
    guess.hidden = dot.hidden = false;
    if (still()) return;
    dot.getBoundingClientRect(); // the start of the way must be drawn before its end
    Object.assign(dot.style, { transition: "", left: `${to.px}px`, top: `${to.py}px` });
    await Promise.allSettled(dot.getAnimations().map((animation) => animation.finished));
  }
  async function showAll() {
    const result = await ask("exercise/place", { ...options, all: true });
    guess.hidden = dot.hidden = true;
    say(output, result.answer);
    await draw(chart, result.chart, { titles: false });
  }
  plane.overlay.addEventListener("click", (event) => check(plane.pointer(event)));
  plane.overlay.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    answer(event.key === "ArrowLeft" ? "left" : "right");
  });
  element.append(radios("Operation", options.cases.map(({ title }, index) => [index, title]), 0, question), plane.stage,
    h("div", { class: "buttons", role: "group", "aria-label": "Side of the ridge" }, sides, overview), output, tally);
  await question(0);
}
