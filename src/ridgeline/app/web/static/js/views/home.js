/* Opens on a question, not on a form. */
import { h } from "../dom.js";

const QUESTIONS = [
  ["Will my kernel be memory- or compute-bound?", "Choose a GPU and an op, drag its sizes, watch the dot cross the ridge.", "#/explore"],
  ["Why is my kernel slow?", "Drop an Nsight Compute report, a PyTorch trace or a table of cases: what limits each kernel, and what each change would save.", "#/profile"],
  ["How fast can this LLM decode?", "Model, GPU, batch, context, layout: prefill and decode side by side.", "#/model"],
  ["What would an H200 bring me?", "Two machines, your ops, the factor for each.", "#/compare"],
  ["Teach me the roofline", "New to it? Ten minutes from a factory to your first prediction, with exercises.", "#/lessons"],
];

export function mount(place) {
  place.append(
    h("h1", { class: "question" }, "What do you want to know?"),
    h("ul", { class: "questions" }, QUESTIONS.map(([question, words, address]) =>
      h("li", {}, h("a", { href: address }, h("b", {}, question), h("span", {}, words))))),
  );
}
