/* Moves dots, their guides and labels on a chart whose axes and roofs stay. Plotly draws all or nothing, which takes longer than a
   step of a dragged slider may; the complete drawing, with labels in their final places, follows when the slider rests. */

/* Dots that become each other when what bounds them changes, and what they look like. */
const SHAPES = { expected: (r) => `M${r},0A${r},${r} 0 1,1 0,-${r}A${r},${r} 0 0,1 ${r},0Z`, overhead: (r) => `M${r},${r}H-${r}V-${r}H${r}Z` };

/* Everything of a chart but the places, colours and words of its dots: two charts with equal texts differ in nothing else. */
export function unmoved(chart, ...more) {
  const colour = ({ group }) => chart.colours?.[group];
  const lines = chart.lines.map((line) => (line.role === "guide" ? line.points.length : [line, colour(line)]));
  const points = chart.points.map((point) => (point.role === "ridge" ? [point, colour(point)] : [point.role in SHAPES ? "" : point.role, Boolean(point.label)]));
  return JSON.stringify([chart.x, chart.y, chart.regions, chart.marks.map((mark) => [mark, colour(mark)]), chart.arrows, lines, points, ...more]);
}

/* The elements that Plotly made of dots and guides, by their places in the chart; `labels` as {point, annotation, at, leader}. */
export function movable(frame, labels) {
  const layer = frame.querySelector(".scatterlayer");
  const made = { dots: new Map(), guides: new Map(), labels: [] };
  if (!layer) return made;
  frame.data.forEach((trace, place) => {
    const group = layer.querySelector(`.trace${frame._fullData[place].uid}`);
    if (!group) return;
    if (trace.mode === "lines") made.guides.set(place, group.querySelector(".js-line"));
    else group.querySelectorAll(".points > .point").forEach((dot, index) => made.dots.set(trace.customdata[index], dot));
  });
  for (const { point, annotation, at, leader } of labels) {
    const group = frame.querySelector(`.annotation[data-index="${annotation}"]`);
    if (group) made.labels.push({ point, at, group, text: group.querySelector("text"), leader: leader === null ? null : frame.querySelector(`.annotation[data-index="${leader}"]`) });
  }
  return made;
}

/* Puts what `movable` listed where the chart has it now; `pixel(x, y)` gives pixels of the plot, `colour(item)` the colour of a dot or
   guide, `words(point)` the text of a label, `radius(point)` the size of a dot. False where something has no element, and the chart is
   to be drawn. */
export function move(made, chart, { pixel, colour, words, radius }) {
  const places = chart.points.map((point) => pixel(point.x, point.y));
  if (!places.flat().every(Number.isFinite) || chart.points.some((_, index) => !made.dots.has(index))) return false;
  chart.points.forEach((point, index) => {
    const dot = made.dots.get(index);
    dot.setAttribute("transform", `translate(${places[index].join(",")})`);
    if (point.role === "ridge") return;
    if (point.role in SHAPES) dot.setAttribute("d", SHAPES[point.role](radius(point)));
    dot.style[["floor", "target"].includes(point.role) ? "stroke" : "fill"] = colour(point);
  });
  chart.lines.forEach((line, index) => {
    const guide = line.role === "guide" && made.guides.get(index);
    if (!guide) return;
    guide.setAttribute("d", `M${line.points.map((spot) => pixel(...spot).join(",")).join("L")}`);
    guide.style.stroke = colour(line);
  });
  for (const { point, at, group, text, leader } of made.labels) {
    const [x, y] = places[point];
    leader?.remove(); // the complete drawing has it again
    group.setAttribute("transform", `translate(${x - at[0]},${y - at[1]})`);
    const shown = words(chart.points[point]);
    if (text.textContent !== shown) text.textContent = shown;
    text.style.fill = colour(chart.points[point]);
  }
  return true;
}
