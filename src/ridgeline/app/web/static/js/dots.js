/* Dots of large charts on a canvas over the plot: thousands of elements would make every move of the chart take seconds. */
import { h } from "./dom.js";

export const MANY = 1500; // dots from which on they are drawn here
const REACH = 6; // pixels around the pointer in which a dot is meant
const CELL = 24, COLUMNS = 4096;

export class Dots {
  constructor(frame) {
    this.frame = frame;
    this.canvas = h("canvas", { class: "dots", "aria-hidden": "true" });
    this.tip = h("div", { class: "dots-tip", role: "tooltip", hidden: true });
    frame.parentElement.append(this.canvas, this.tip);
    frame.addEventListener("mousemove", (event) => this.hover(event));
    frame.addEventListener("mouseleave", () => { this.tip.hidden = true; });
    frame.addEventListener("mousedown", (event) => { this.pressed = [event.clientX, event.clientY]; }, true);
    frame.addEventListener("click", (event) => this.choose(event), true);
  }

  /* `items`: {x, y, radius, colour, index, ring} in pixels of the plot, `ring` the colour of the ring around a chosen dot; `box`: {left, top,
     width, height} of the plot in the frame; `texts(index)`: lines of a dot; `chosen(index)`: what a click does. */
  show(items, box, texts, chosen) {
    Object.assign(this, { items, box, texts, chosen, cells: null });
    const scale = devicePixelRatio || 1, { canvas } = this;
    canvas.hidden = !items.length;
    canvas.width = Math.round(box.width * scale);
    canvas.height = Math.round(box.height * scale);
    Object.assign(canvas.style, { width: `${box.width}px`, height: `${box.height}px`, left: `${this.frame.offsetLeft + box.left}px`, top: `${this.frame.offsetTop + box.top}px` });
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.globalAlpha = 0.8;
    const rings = [];
    for (const item of items) {
      if (!this.seen(item)) continue;
      pen.fillStyle = item.colour;
      pen.beginPath();
      pen.arc(item.x, item.y, item.radius, 0, 2 * Math.PI);
      pen.fill();
      if (item.ring) rings.push(item);
    }
    pen.globalAlpha = 1;
    pen.lineWidth = 3;
    for (const item of rings) {
      pen.strokeStyle = item.ring;
      pen.beginPath();
      pen.arc(item.x, item.y, item.radius + 3, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  seen({ x, y }) {
    return x >= 0 && y >= 0 && x <= this.box.width && y <= this.box.height;
  }

  key(x, y) {
    return Math.floor(x / CELL) * COLUMNS + Math.floor(y / CELL);
  }

  /* The dots by where they are, sorted when the pointer first asks: while a chart is moved nobody does. */
  sorted() {
    this.cells = new Map();
    for (const item of this.items) {
      if (!this.seen(item)) continue;
      const key = this.key(item.x, item.y);
      if (this.cells.has(key)) this.cells.get(key).push(item);
      else this.cells.set(key, [item]);
    }
    return this.cells;
  }

  /* The dot under the pointer; of several the nearest. */
  at(event) {
    if (!this.items?.length) return null;
    const frame = this.frame.getBoundingClientRect();
    const x = event.clientX - frame.left - this.box.left, y = event.clientY - frame.top - this.box.top;
    const cells = this.cells ?? this.sorted();
    let best = null, least = Infinity;
    for (const dx of [-CELL, 0, CELL])
      for (const dy of [-CELL, 0, CELL])
        for (const item of cells.get(this.key(x + dx, y + dy)) ?? []) {
          const distance = Math.hypot(item.x - x, item.y - y) - item.radius;
          if (distance < least) [best, least] = [item, distance];
        }
    return least <= REACH ? best : null;
  }

  hover(event) {
    if (event.buttons) return void (this.tip.hidden = true); // it is dragged
    const item = this.at(event);
    this.tip.hidden = !item;
    if (!item) return;
    this.tip.replaceChildren(...this.texts(item.index).map((line, place) => h(place ? "div" : "b", {}, line)));
    const left = Math.min(this.frame.offsetLeft + this.box.left + item.x + 12, this.frame.offsetLeft + this.frame.clientWidth - this.tip.offsetWidth);
    Object.assign(this.tip.style, { left: `${Math.max(0, left)}px`, top: `${this.frame.offsetTop + this.box.top + item.y + 12}px` });
  }

  /* A click, and not the end of a drag. */
  choose(event) {
    const [x, y] = this.pressed ?? [event.clientX, event.clientY];
    if (Math.hypot(event.clientX - x, event.clientY - y) > 4) return;
    const item = this.at(event);
    if (item) this.chosen(item.index);
  }
}
