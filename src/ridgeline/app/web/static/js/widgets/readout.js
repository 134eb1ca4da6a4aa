/* Point anywhere on the chart, or use the arrow keys, to read the intensity and the performance there. */
import { ask } from "../api.js";
import { h } from "../dom.js";
import { draw } from "../draw.js";
import { asker, layer, say, speaker } from "../exercise.js";

const STEP = 8, LONG_STEP = 40; // pixels of an arrow key, and with Shift

export default async function mount(element, options) {
  const { chart: picture, ridge, peak } = await ask("exercise/roofline", options);
  const chart = h("div"), output = speaker();
  const plane = layer(chart, "Roofline. Arrow keys move the point that is read out, with Shift in larger steps; Home goes to the ridge.");
  const across = h("div", { class: "crosshair across" }), up = h("div", { class: "crosshair up" });
  plane.overlay.append(across, up);
  const refresh = asker("readout", output, (result) => say(output, result.answer));
  let spot = null; // values, so that it stays where it is when the chart is resized
  function read({ px, py }) {
    const { clientWidth: wide, clientHeight: high } = plane.overlay;
    spot = plane.value(Math.min(Math.max(px, 0), wide), Math.min(Math.max(py, 0), high));
    place();
    element.dataset.intensity = spot.x;
    element.dataset.performance = spot.y;
    refresh({ ...options, intensity: spot.x, performance: spot.y });
  }
  function place() {
    const { px, py } = plane.pixel(spot);
    across.style.top = `${py}px`;
    up.style.left = `${px}px`;
  }
  plane.overlay.addEventListener("pointermove", (event) => read(plane.pointer(event)));
  plane.overlay.addEventListener("pointerdown", (event) => read(plane.pointer(event)));
  plane.overlay.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? LONG_STEP : STEP;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key !== "Home" && !(event.key in moves)) return;
    event.preventDefault();
    const { px, py } = plane.pixel(event.key === "Home" ? { x: ridge, y: peak } : spot);
    const [dx, dy] = moves[event.key] ?? [0, 0];
    read({ px: px + dx, py: py + dy });
  });
  new ResizeObserver(() => spot && place()).observe(plane.overlay);
  element.append(plane.stage, output);
  await draw(chart, picture, { titles: false });
  plane.fit();
  read(plane.pixel({ x: ridge, y: peak }));
}
