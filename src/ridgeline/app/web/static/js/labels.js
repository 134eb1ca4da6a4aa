/* Places labels so that none covers another, a dot, or the edge; one that finds no room is left out, and hovering names its dot. */

const CANVAS = document.createElement("canvas").getContext("2d");
const HEIGHT = 15, MARGIN = 3;
const STEPS = [[1, 0], [-1, 0], [1, -1], [-1, -1], [1, 1], [-1, 1], [0, -1], [0, 1]];
const DISTANCES = [0, 10, 22, 36];

export function textWidth(text, font) {
  CANVAS.font = font;
  return CANVAS.measureText(text).width;
}

const overlaps = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;

/* A grid of boxes, so that thousands of dots stay cheap to ask about. */
const CELL = 48, COLUMNS = 4096;
class Boxes {
  cells = new Map();
  add(box) {
    for (let i = Math.floor(box.x0 / CELL); i <= Math.floor(box.x1 / CELL); i++)
      for (let j = Math.floor(box.y0 / CELL); j <= Math.floor(box.y1 / CELL); j++) {
        const key = i * COLUMNS + j;
        if (this.cells.has(key)) this.cells.get(key).push(box);
        else this.cells.set(key, [box]);
      }
  }
  hits(box) {
    for (let i = Math.floor(box.x0 / CELL); i <= Math.floor(box.x1 / CELL); i++)
      for (let j = Math.floor(box.y0 / CELL); j <= Math.floor(box.y1 / CELL); j++)
        if (this.cells.get(i * COLUMNS + j)?.some((other) => overlaps(box, other))) return true;
    return false;
  }
}

/* The dots {x, y, radius} that labels keep off, sorted once for all labels of a drawing. */
export function crowd(dots) {
  const boxes = new Boxes();
  dots.forEach(({ x, y, radius }) => boxes.add({ x0: x - radius, x1: x + radius, y0: y - radius, y1: y + radius }));
  return boxes;
}

/* `wanted`: {x, y, text, radius} in pixels, the most important first; `dots`: what `crowd` made; `taken`: boxes.
   Returns {index, x, y, anchor} for those that have room; (x, y) is the side of the text nearest to its dot. */
export function place(wanted, dots, taken, size, font) {
  const boxes = new Boxes();
  taken.forEach((box) => boxes.add(box));
  const placed = [];
  wanted.forEach((item, index) => {
    const width = textWidth(item.text, font) + 2 * MARGIN;
    for (const distance of DISTANCES) {
      const spot = STEPS.map(([dx, dy]) => candidate(item, width, dx, dy, distance)).find((box) => inside(box, size) && !boxes.hits(box) && !dots.hits(box));
      if (!spot) continue;
      boxes.add(spot);
      placed.push({ index, x: spot.x0 + MARGIN, y: (spot.y0 + spot.y1) / 2, box: spot, far: distance > 10 });
      return;
    }
  });
  return placed;
}

function candidate({ x, y, radius }, width, dx, dy, distance) {
  const gap = radius + 2 + distance;
  const side = dy === 0 ? gap : gap * 0.8;
  const x0 = dx > 0 ? x + side : dx < 0 ? x - side - width : x - width / 2;
  const middle = y + dy * (gap + HEIGHT / 2);
  return { x0, x1: x0 + width, y0: middle - HEIGHT / 2, y1: middle + HEIGHT / 2 };
}

const inside = (box, size) => box.x0 >= 0 && box.y0 >= 0 && box.x1 <= size.width && box.y1 <= size.height;
