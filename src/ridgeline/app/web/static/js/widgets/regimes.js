/* Say which regime limits each kernel before anything is shown; then read its prediction and its gap. */
import { ask } from "../api.js";
import { failure, h, replace } from "../dom.js";
import { draw } from "../draw.js";
import { fresh, say, speaker } from "../exercise.js";

const REGIMES = ["memory", "compute", "overhead"];

export default function mount(element, { on, cases }, page) {
  const firsts = cases.map(() => null); // the first answer counts
  const tally = h("p", { class: "note", "aria-live": "polite" }), chart = h("div"), summary = speaker();
  summary.hidden = true;

  function card({ title, case: text, hint }, index) {
    const output = speaker(), id = fresh("case");
    const buttons = REGIMES.map((regime) => h("button", { type: "button", "data-regime": regime, "aria-pressed": "false", onclick: () => choose(regime) }, `${regime}-bound`));
    async function choose(regime) {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.regime === regime));
      try {
        const result = await ask("exercise/regime", { on, case: text, guess: regime });
        replace(output, h("p", { class: result.right ? "right" : "wrong" }, result.answer[0]), result.answer.slice(1).map((line) => h("p", {}, line)));
        Object.assign(output.dataset, { right: result.right, bound: result.bound });
        firsts[index] ??= result.right;
        await count();
      } catch (error) {
        replace(output, failure(error));
      }
    }
    return h("section", { class: "regime-case", "aria-labelledby": id },
      h("h3", { id }, `${index + 1}. ${title}`), hint ? h("details", {}, h("summary", {}, "Hint"), h("p", {}, hint)) : null,
      h("div", { class: "buttons", role: "group", "aria-label": "Your prediction" }, buttons), output);
  }
  async function count() {
    const done = firsts.filter((each) => each !== null).length, right = firsts.filter(Boolean).length;
    tally.textContent = `${right} of ${done} right at the first try, ${firsts.length - done} to go`;
    page.score("regimes", right, firsts.length);
    if (done < firsts.length || !summary.hidden) return;
    const result = await ask("exercise/regimes", { on, cases: cases.map(({ title, case: text }) => ({ title, case: text })) });
    summary.hidden = false;
    say(summary, result.answer);
    await draw(chart, result.chart, { titles: false });
  }
  element.append(...cases.map(card), tally, summary, chart);
}
