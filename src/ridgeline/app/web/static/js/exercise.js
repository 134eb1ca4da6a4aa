/* Parts that exercises are made of: choices, sliders, bars, spoken answers, and a layer over a chart that is pointed at. */
import { ask, latest } from "./api.js";
import { failure, h, replace } from "./dom.js";

let count = 0;
export const fresh = (word) => `${word}-${++count}`;

/* What the server said, read aloud when it changes; the first line is the answer. */
export function speaker() {
  return h("output", { class: "said", "aria-live": "polite" });
}

export function say(output, lines) {
  replace(output, lines.map((line) => h("p", {}, line)));
}

/* Asks the exercise `name`, newest question first, and shows a refusal where the answer would be. */
export function asker(name, output, shown) {
  return latest(async (body) => {
    try {
      await shown(await ask(`exercise/${name}`, body), body);
    } catch (error) {
      replace(output, failure(error));
    }
  });
}

/* Radio buttons; `choices` are [value, label]. */
export function radios(legend, choices, value, onchange) {
  const name = fresh("choice");
  return h("fieldset", { class: "choices" }, h("legend", {}, legend), choices.map(([each, label]) =>
    h("label", {}, h("input", { type: "radio", name, value: String(each), checked: each === value, onchange: () => onchange(each) }), label)));
}

/* A slider over `values`, a list in order; `text(value)` is shown and read aloud. */
export function slider(label, values, value, text, oninput) {
  const id = fresh("exercise"), shown = h("b", {}, text(value));
  const input = h("input", { type: "range", id, min: "0", max: String(values.length - 1), step: "1", "aria-valuetext": text(value), oninput: () => {
    const chosen = values[Number(input.value)];
    shown.textContent = text(chosen);
    input.setAttribute("aria-valuetext", text(chosen));
    oninput(chosen);
  } });
  input.value = String(Math.max(0, values.indexOf(value)));
  return h("div", { class: "slider" }, h("label", { for: id }, label), shown, input);
}

/* Two or more bars; drawing again changes their lengths. */
export function drawBars(element, bars) {
  if (element.children.length !== 2 * bars.length) {
    element.classList.add("two-bars");
    replace(element, bars.map(() => [h("dt"), h("dd", {}, h("div", { class: "track" }, h("div", { class: "bar" })), h("span", { class: "figure" }))]));
  }
  bars.forEach((bar, index) => {
    element.children[2 * index].textContent = bar.label;
    const cell = element.children[2 * index + 1], strip = cell.querySelector(".bar");
    strip.className = `bar ${bar.side}`;
    strip.style.width = `${100 * bar.share}%`;
    cell.querySelector(".figure").textContent = bar.text;
  });
}

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/* A layer over the plot of a chart that takes pointers and keys, and knows where on the axes they are. */
export function layer(chart, label) {
  const overlay = h("div", { class: "overlay", tabindex: "0", role: "application", "aria-label": label });
  const stage = h("div", { class: "stage" }, chart, overlay);
  const frame = () => chart.querySelector(".chart");
  const axes = () => ({ x: frame().chart.x, y: frame().chart.y });
  const fit = () => {
    const plot = chart.querySelector(".nsewdrag")?.getBoundingClientRect(), outer = stage.getBoundingClientRect();
    if (!plot) return;
    Object.assign(overlay.style, { left: `${plot.left - outer.left}px`, top: `${plot.top - outer.top}px`, width: `${plot.width}px`, height: `${plot.height}px` });
  };
  new ResizeObserver(fit).observe(stage);
  const across = (axis, share) => inverse(axis, share);
  return {
    stage, overlay, fit,
    /* Pixels from the upper left corner of the plot to values of the axes, and back. */
    value(px, py) {
      const { x, y } = axes();
      return { x: across(x, px / overlay.clientWidth), y: across(y, 1 - py / overlay.clientHeight) };
    },
    pixel({ x: atX, y: atY }) {
      const { x, y } = axes();
      return { px: share(x, atX) * overlay.clientWidth, py: (1 - share(y, atY)) * overlay.clientHeight };
    },
    pointer(event) {
      const box = overlay.getBoundingClientRect();
      return { px: event.clientX - box.left, py: event.clientY - box.top };
    },
  };
}

function inverse({ scale, range: [low, high] }, part) {
  return scale === "log" ? low * (high / low) ** part : low + (high - low) * part;
}

function share({ scale, range: [low, high] }, value) {
  return scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}
