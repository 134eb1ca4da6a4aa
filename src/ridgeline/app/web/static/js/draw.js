/* Draws the charts that the server describes. The only file that talks to Plotly; no number is computed here. */
import { h } from "./dom.js";
import { Dots, MANY } from "./dots.js";
import { crowd, place, textWidth } from "./labels.js";
import { movable, move, unmoved } from "./moves.js";

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const MARGIN = { l: 62, r: 16, t: 10, b: 48 };
const SYMBOLS = { expected: "circle", overhead: "square", floor: "line-ew", observed: "diamond", target: "circle-open", ridge: "circle", value: "circle" };
const DASHES = { guide: "dot", target: "dash" };
const NARROW = 480; // pixels below which the y axis goes without a title
const MIN_HEIGHT = 260, MAX_HEIGHT = 620, MAX_LABELS = 60, MAX_LABELS_CROWDED = 16, MAX_OBSTACLES = 1200;
const REST = 250; // milliseconds without a move after which a chart is drawn in full
const drawn = new Set();
let themes = 0; // how often the colours have changed
/* Plotly is large: the page asks its questions while it loads. */
const loaded = new Promise((done, fail) => {
  if (window.Plotly) return done();
  const script = document.getElementById("plotly");
  script.addEventListener("load", done);
  script.addEventListener("error", () => fail(new Error("the server did not send plotly.js; is `ridgeline serve` still running?")));
});
loaded.catch(() => {}); // whoever draws is told

/* Colours of the theme; asking the page for one makes it compute its styles, so each is asked for once. */
const palette = new Map();
export function colour(role) {
  if (!palette.has(role)) palette.set(role, getComputedStyle(document.documentElement).getPropertyValue(`--rl-${role}`).trim());
  return palette.get(role);
}

/* Plotly reads some markup in texts: what people wrote must stay what they wrote. */
export const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/* Shows a picture in `element`; options: onPoint(point, chart) when a dot is chosen, selected(point) of the dots with a ring,
   titles: false to leave them out, height in pixels. Drawing again into the same element moves what is there. */
export async function draw(element, picture, options = {}) {
  element.ridgeline = { picture, options };
  drawn.add(element);
  await loaded;
  const charts = picture.charts ?? [picture];
  if (element.dataset.charts !== String(charts.length)) build(element, charts.length);
  texts(element.querySelector(".chart-head"), picture, options);
  element.querySelector(".legend").replaceChildren(...legend(charts));
  const frames = [...element.querySelectorAll(".chart")];
  await Promise.all(charts.map((chart, index) => drawChart(frames[index], { ...chart, colours: picture.colours }, options, charts.length > 1)));
  const notes = [...(picture.notes ?? [])];
  element.querySelector(".chart-notes").textContent = options.titles === false ? "" : notes.join("; ");
}

/* The axes that the server gave the chart in `element`; null where there is none. */
export function shownPlane(element) {
  const chart = element.querySelector(".chart")?.chart;
  return chart ? { x: chart.x.range, y: chart.y.range } : null;
}

/* Again in the colours of the theme, or for another width. */
export function redraw() {
  palette.clear();
  themes += 1;
  for (const element of drawn) {
    if (!element.isConnected) drawn.delete(element);
    else draw(element, element.ridgeline.picture, element.ridgeline.options);
  }
}

let width = innerWidth, timer = null;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(timer);
  timer = setTimeout(redraw, 80);
});

function build(element, count) {
  element.dataset.charts = count;
  element.replaceChildren(
    h("div", { class: "chart-head" }), h("ul", { class: "legend", "aria-label": "Legend" }),
    h("div", { class: count > 1 ? "charts" : "" }, Array.from({ length: count }, () => h("div", { class: "chart-box" }, h("p", { class: "chart-title", hidden: count === 1 }), h("div", { class: "chart", role: "img" })))),
    h("p", { class: "chart-notes" }),
  );
}

function texts(head, picture, options) {
  head.replaceChildren(...(options.titles === false ? [] : [h("p", { class: "chart-title" }, picture.title), h("p", { class: "chart-subtitle" }, picture.subtitle ?? "")]));
}

/* What colours mean, where nothing on the chart says it. */
function legend(charts) {
  const entries = new Map(charts.flatMap((chart) => chart.legend ?? []).map((entry) => [entry.text, entry]));
  return [...entries.values()].map((entry) => {
    const mark = h("span", { class: entry.dash ? "key line" : entry.marker === "s" ? "key square" : "key", "aria-hidden": "true" });
    mark.style.setProperty("--key", `var(--rl-${entry.colour})`);
    if (entry.size) mark.style.setProperty("--size", `${entry.size}px`);
    return h("li", {}, mark, entry.text);
  });
}

async function drawChart(frame, chart, options, several) {
  const title = frame.parentElement.querySelector(".chart-title");
  title.textContent = several ? chart.title : "";
  frame.setAttribute("aria-label", described(chart));
  const same = chart.look === "plane" && !crowded(chart) ? unmoved(chart, frame.clientWidth, options.height, themes, ringed(chart, options)) : null;
  clearTimeout(frame.resting);
  if (same !== null && same === frame.unmoved && moved(frame, chart)) {
    Object.assign(frame, { chart, options });
    frame.resting = setTimeout(() => {
      frame.unmoved = null;
      if (frame.isConnected) drawChart(frame, frame.chart, frame.options, several);
    }, REST);
    return;
  }
  const make = chart.look === "plane" ? plane : bars;
  const { traces, layout } = make(frame, chart, options);
  await window.Plotly.react(frame, traces, layout, { displaylogo: false, responsive: false, modeBarButtons: [["pan2d", "zoom2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]], displayModeBar: matchMedia("(hover: none)").matches ? false : "hover" });
  Object.assign(frame, { chart, options, unmoved: same, movable: same === null ? null : movable(frame, frame.labelled) });
  if (chart.look === "plane") showDots(frame, view(frame));
  if (frame.listening) return;
  frame.listening = true;
  frame.on("plotly_click", (event) => {
    const chosen = event.points.find((point) => point.customdata !== undefined);
    if (chosen) frame.options.onPoint?.(frame.chart.points[chosen.customdata], frame.chart, chosen.customdata);
  });
  frame.on("plotly_relayouting", (change) => {
    if (!frame.dots || !crowded(frame.chart)) return;
    const seen = view(frame);
    for (const [name, key] of [["xaxis", "x"], ["yaxis", "y"]]) {
      const [low, high] = [change[`${name}.range[0]`], change[`${name}.range[1]`]];
      if (low !== undefined) seen[key] = [Number(low), Number(high)];
    }
    cancelAnimationFrame(frame.moving); // one drawing for all moves of a frame
    frame.moving = requestAnimationFrame(() => showDots(frame, seen));
  });
  frame.on("plotly_relayout", (change) => {
    if (frame.chart.look !== "plane" || frame.placing || !Object.keys(change).some((key) => key.startsWith("xaxis") || key.startsWith("yaxis"))) return;
    frame.placing = true;
    frame.unmoved = null; // labels are made anew
    cancelAnimationFrame(frame.moving);
    showDots(frame, view(frame));
    window.Plotly.relayout(frame, { ...tickModes(frame),  annotations: annotations(frame, frame.chart, view(frame)) }).finally(() => { frame.placing = false; });
  });
}

/* Whether it was enough to move what is there. */
function moved(frame, chart) {
  const colourOf = (item) => groupColour(chart, item.group, item.role === "guide" ? "muted" : "c0");
  return move(frame.movable, chart, { pixel: pixels(chart, view(frame)), colour: colourOf, words: labelText, radius });
}

const crowded = (chart) => chart.points.length > MANY;
const onCanvas = (chart, point) => crowded(chart) && point.role !== "ridge";

/* The dots of a chart that has too many for elements of their own. */
function showDots(frame, seen) {
  const { chart } = frame;
  if (!frame.dots && !crowded(chart)) return;
  frame.dots ??= new Dots(frame);
  const pixel = pixels(chart, seen), paint = new Map();
  const colourOf = (group) => paint.get(group) ?? paint.set(group, groupColour(chart, group, "c0")).get(group);
  const items = [], chosen = ringed(chart, frame.options);
  chart.points.forEach((point, index) => {
    if (!onCanvas(chart, point)) return;
    const [x, y] = pixel(point.x, point.y);
    items.push({ x, y, index, radius: point.role === "floor" ? 2 : point.share === null || point.share === undefined ? 3 : radius(point), colour: colourOf(point.group), ring: chosen.includes(index) && colour("ink") });
  });
  const margin = frame.margin ?? MARGIN;
  frame.dots.show(items, { left: margin.l, top: MARGIN.t, width: seen.width, height: seen.height }, (index) => pointLines(chart.points[index]), (index) => frame.options.onPoint?.(chart.points[index], chart, index));
}

/* Ticks of the server while some are in view; close up, those that Plotly makes. */
function tickModes(frame) {
  const modes = {};
  for (const [name, axis] of [["xaxis", frame.chart.x], ["yaxis", frame.chart.y]]) {
    if (!axis.ticks?.length) continue;
    const [low, high] = frame.layout[name].range;
    const seen = axis.ticks.filter(([value]) => toAxis(axis, value) >= low && toAxis(axis, value) <= high).length;
    modes[`${name}.tickmode`] = seen >= 2 ? "array" : "auto";
  }
  return modes;
}

/* What the picture shows, for people who hear it. */
function described(chart) {
  const points = chart.points.filter((point) => point.role !== "floor" && point.role !== "ridge");
  const named = points.slice(0, 8).map((point) => [point.name || point.label, ...(point.facts ?? []).slice(0, 4).map(([name, text]) => `${name} ${text}`)].join(", "));
  return [chart.title, chart.subtitle, ...chart.lines.map((line) => line.label).filter(Boolean), ...named].filter(Boolean).join(". ");
}

function base(frame, options) {
  const ink = colour("ink");
  return {
    margin: MARGIN, font: { family: FONT, size: 12, color: ink }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false, dragmode: "pan", hovermode: "closest", width: frame.clientWidth || 600,
    hoverlabel: { bgcolor: colour("background"), bordercolor: colour("frame"), font: { color: ink, family: FONT, size: 13 }, align: "left", namelength: -1 },
    uirevision: "same",
  };
}

const toAxis = (axis, value) => (axis.scale === "log" ? Math.log10(value) : value);

function axisLayout(axis) {
  const bare = ["FLOP/B", ""].includes(axis.unit); // other ticks carry their unit
  const title = axis.unit && axis.unit !== "year" && (bare || !axis.ticks?.length) ? `${axis.label} (${axis.unit})` : axis.label;
  return {
    type: axis.scale, range: axis.range.map((value) => toAxis(axis, value)), title: { text: plain(title), standoff: 8 }, visible: axis.shown,
    gridcolor: colour("grid"), linecolor: colour("frame"), zeroline: false, exponentformat: "SI", minexponent: 3, dtick: axis.scale === "log" ? 1 : undefined,
    ...(axis.ticks?.length ? { tickmode: "array", tickvals: axis.ticks.map(([value]) => value), ticktext: axis.ticks.map(([, text]) => plain(text)) } : {}),
    showline: true, ticks: "outside", tickcolor: colour("frame"), automargin: false,
  };
}

/* Upright texts at as many ticks of an x axis as have room. */
function legible(axis, [low, high], across) {
  if (!axis.ticks?.length) return {};
  const seen = axis.ticks.filter(([value]) => value >= low && value <= high), wide = Math.max(0, ...seen.map(([, text]) => textWidth(text, `12px ${FONT}`)));
  const every = Math.max(1, Math.ceil((seen.length * (wide + 8)) / across)), first = axis.ticks.indexOf(seen[0]);
  return { ticktext: axis.ticks.map(([, text], index) => ((index - first) % every ? "" : plain(text))), tickangle: 0 };
}

/* Room on the left for the widest tick. */
function marginOf(frame, chart) {
  const texts = (chart.y.ticks ?? []).filter(([value]) => value >= chart.y.range[0] * 0.99 && value <= chart.y.range[1] * 1.01).map(([, text]) => textWidth(text, `12px ${FONT}`));
  const named = frame.clientWidth > NARROW;
  return { ...MARGIN, l: Math.max(40, ...texts) + (named ? 34 : 12), r: named ? MARGIN.r : 10 };
}

function plane(frame, chart, options) {
  const layout = base(frame, options);
  const margin = chart.y.shown && chart.y.ticks?.length ? marginOf(frame, chart) : MARGIN;
  frame.margin = layout.margin = margin;
  const across = layout.width - margin.l - margin.r;
  const decades = (axis) => Math.abs(toAxis(axis, axis.range[1]) - toAxis(axis, axis.range[0]));
  const even = chart.x.unit === "FLOP/B" && chart.x.scale === "log" && chart.y.scale === "log";
  const ideal = even ? (across * decades(chart.y)) / decades(chart.x) : across * 0.6;
  layout.height = options.height ?? Math.round(Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, ideal)) + MARGIN.t + MARGIN.b);
  layout.xaxis = { ...axisLayout(chart.x), ...legible(chart.x, chart.x.range, across) };
  layout.yaxis = axisLayout(chart.y);
  if (frame.clientWidth <= NARROW && chart.y.ticks?.length) layout.yaxis.title = { text: "" }; // its unit is at the ticks
  layout.shapes = shapes(chart);
  layout.annotations = annotations(frame, chart, { width: across, height: layout.height - MARGIN.t - MARGIN.b, x: layout.xaxis.range, y: layout.yaxis.range });
  return { traces: [...lineTraces(chart), ...pointTraces(chart, ringed(chart, options))], layout };
}

/* The places of the dots that are chosen. */
const ringed = (chart, { selected }) => (selected ? chart.points.flatMap((point, index) => (selected(point) ? [index] : [])) : []);

const groupColour = (chart, group, otherwise) => colour(chart.colours?.[group] ?? otherwise);

function lineTraces(chart) {
  return chart.lines.map((line) => ({
    type: "scatter", mode: "lines", x: line.points.map(([x]) => x), y: line.points.map(([, y]) => y), hoverinfo: "skip",
    fill: line.role === "area" ? "tozeroy" : undefined, connectgaps: false,
    line: { color: groupColour(chart, line.group, line.role === "guide" ? "muted" : "ink"), width: line.role === "guide" ? 1.2 : line.role === "series" ? 1.8 : 2.6, dash: DASHES[line.role] ?? "solid", shape: "linear" },
  }));
}

const radius = (point) => (point.share === null || point.share === undefined ? (point.role === "ridge" ? 4 : 5.5) : Math.max(3.2, 17 * Math.sqrt(Math.min(point.share, 1))));

function pointTraces(chart, chosen) {
  const groups = new Map();
  chart.points.forEach((point, index) => {
    if (onCanvas(chart, point)) return;
    const key = `${point.group}\n${point.role}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(index);
  });
  return [...groups.values()].map((indices) => {
    const points = indices.map((index) => chart.points[index]);
    const { role, group } = points[0];
    const paint = groupColour(chart, group, role === "ridge" ? "ridge" : "c0");
    return {
      type: "scatter", mode: "markers", x: points.map((point) => point.x), y: points.map((point) => point.y), customdata: indices,
      hoverinfo: "text", hovertext: points.map(hoverText),
      marker: { color: paint, size: points.map((point) => 2 * radius(point)), symbol: SYMBOLS[role] ?? "circle", opacity: role === "floor" ? 1 : 0.85, line: {
        color: indices.map((index) => (role === "floor" || role === "target" ? paint : colour(chosen.includes(index) ? "ink" : "background"))),
        width: indices.map((index) => (role === "floor" ? 2 : chosen.includes(index) ? 3 : 1)),
      } },
    };
  });
}

const pointLines = (point) => [point.name || point.label || point.group || point.role, ...(point.facts ?? []).slice(0, 8).map(([name, text]) => `${name}: ${text}`)];

function hoverText(point) {
  const [name, ...facts] = pointLines(point).map(plain);
  return [`<b>${name}</b>`, ...facts].join("<br>");
}

function shapes(chart) {
  const regions = chart.regions.map((region) => ({
    type: "rect", layer: "below", line: { width: 0 }, fillcolor: colour(region.role || "overhead"), opacity: 0.75,
    xref: region.x ? "x" : "paper", yref: region.y ? "y" : "paper", x0: region.x?.[0] ?? 0, x1: region.x?.[1] ?? 1, y0: region.y?.[0] ?? 0, y1: region.y?.[1] ?? 1,
  }));
  const marks = chart.marks.map((mark) => {
    const ink = groupColour(chart, mark.group, mark.role === "ridge" ? "ridge" : "muted");
    const upright = mark.axis === "x";
    return { type: "line", layer: "below", line: { color: ink, width: 1.2, dash: "dot" }, xref: upright ? "x" : "paper", yref: upright ? "paper" : "y", x0: upright ? mark.value : 0, x1: upright ? mark.value : 1, y0: upright ? 0 : mark.value, y1: upright ? 1 : mark.value };
  });
  return [...regions, ...marks];
}

/* The part of the plane that is seen, in axis units and pixels. */
function view(frame) {
  const { xaxis, yaxis, width: wide, height } = frame.layout;
  const margin = frame.margin ?? MARGIN;
  return { width: wide - margin.l - margin.r, height: height - MARGIN.t - MARGIN.b, x: xaxis.range, y: yaxis.range };
}

/* From values of the axes to pixels of the plot. */
const pixels = (chart, seen) => (x, y) => [
  ((toAxis(chart.x, x) - seen.x[0]) / (seen.x[1] - seen.x[0])) * seen.width,
  (1 - (toAxis(chart.y, y) - seen.y[0]) / (seen.y[1] - seen.y[0])) * seen.height,
];

function annotations(frame, chart, seen) {
  const pixel = pixels(chart, seen);
  const within = ([x, y]) => x >= 0 && y >= 0 && x <= seen.width && y <= seen.height;
  const font = `12px ${FONT}`;
  const taken = [], made = [];
  const add = (x, y, text, ink, extra = {}) => made.push({ xref: "paper", yref: "paper", x: x / seen.width, y: 1 - y / seen.height, xanchor: "left", yanchor: "middle", text: plain(text), showarrow: false, font: { color: ink, size: 12 }, borderpad: 0, ...extra });
  const roofs = chart.lines.map((line) => obstacles(line, pixel, seen)), roofBoxes = roofs.flat();
  for (const mark of chart.marks.filter((each) => each.label && each.axis === "x")) {
    const [x] = pixel(mark.value, chart.y.range[0]);
    if (x < 0 || x > seen.width) continue;
    const spot = markLabel(mark.label, x, seen, font, taken, roofBoxes);
    taken.push(spot.box);
    add(spot.box.x0, spot.y, spot.text, groupColour(chart, mark.group, mark.role === "ridge" ? "ridge" : "muted"));
  }
  for (const mark of chart.marks.filter((each) => each.label && each.axis === "y")) {
    const wide = textWidth(mark.label, font) + 4;
    const [, height] = pixel(chart.x.range[0], mark.value);
    if (height < 0 || height > seen.height) continue;
    const x0 = seen.width - wide - 4, y = height > 16 ? height - 9 : height + 9;
    taken.push({ x0, x1: x0 + wide, y0: y - 7, y1: y + 7 });
    add(x0, y, mark.label, groupColour(chart, mark.group, mark.role === "ridge" ? "ridge" : "muted"));
  }
  for (const region of chart.regions.filter((each) => each.label && each.y && !each.x)) {
    const wide = textWidth(region.label, font);
    const [, low] = pixel(chart.x.range[0], region.y[0]), [, high] = pixel(chart.x.range[0], region.y[1]);
    const y = (Math.max(0, high) + Math.min(seen.height, low)) / 2;
    if (low - high < 18) continue;
    taken.push({ x0: 8, x1: 8 + wide, y0: y - 7, y1: y + 7 });
    add(8, y, region.label, colour("muted"));
  }
  for (const region of chart.regions.filter((each) => each.label && !(each.y && !each.x))) {
    const wide = textWidth(region.label, font);
    const [left] = region.x ? pixel(region.x[0], chart.y.range[0]) : [0], [right] = region.x ? pixel(region.x[1], chart.y.range[0]) : [seen.width];
    const from = Math.max(0, left), to = Math.min(seen.width, right);
    if (to - from < wide + 10) continue;
    const x0 = (from + to - wide) / 2;
    let y = seen.height - 26;
    while (y > 20 && taken.some((box) => box.y0 < y + 7 && y - 7 < box.y1 && box.x0 < x0 + wide && x0 < box.x1)) y -= 15;
    taken.push({ x0, x1: x0 + wide, y0: y - 7, y1: y + 7 });
    add(x0, y, region.label, colour("muted"));
  }
  const inView = chart.points.map((point, index) => ({ point, index, spot: pixel(point.x, point.y) })).filter(({ spot }) => within(spot));
  const spots = inView.map(({ point, spot }) => ({ x: spot[0], y: spot[1], radius: radius(point) })), dots = crowd(spots);
  const dotBoxes = spots.slice(0, MAX_OBSTACLES).map(({ x, y, radius: size }) => ({ x0: x - size - 2, x1: x + size + 2, y0: y - size - 2, y1: y + size + 2 }));
  const arrows = chart.arrows.flatMap(({ start, end }) => obstacles({ points: [start, end] }, pixel, seen));
  const others = (line) => [...dotBoxes, ...arrows, ...roofs.flatMap((boxes, index) => (chart.lines[index] === line ? [] : boxes))];
  for (const line of chart.lines.filter((each) => each.label)) lineLabel(line, pixel, seen, font, taken, others(line), dotBoxes, ({ x, y, angle, text, crossing }) => add(x, y, text, groupColour(chart, line.group, "ink"), { textangle: angle, xanchor: "center", ...(crossing ? ON_LINES() : {}) }));
  const wanted = inView.filter(({ point }) => point.label).map(({ point, index, spot }) => ({ ...point, index, spot })).sort((a, b) => (b.share ?? 1) - (a.share ?? 1)).slice(0, crowded(chart) ? MAX_LABELS_CROWDED : MAX_LABELS);
  const items = wanted.map((point) => ({ x: point.spot[0], y: point.spot[1], text: labelText(point), radius: radius(point) }));
  // off the lines where there is room, else across one
  const clear = place(items, dots, [...taken, ...roofs.flat(), ...arrows], seen, font);
  const left = items.map((_, index) => index).filter((index) => !clear.some((spot) => spot.index === index));
  const crossing = place(left.map((index) => items[index]), dots, [...taken, ...clear.map((spot) => spot.box)], seen, font);
  frame.labelled = [];
  for (const { index, x, y, box, far, ground } of [...clear, ...crossing.map((spot) => ({ ...spot, index: left[spot.index], ground: ON_LINES() }))]) {
    taken.push(box);
    const ink = groupColour(chart, wanted[index].group, "ink"), [atX, atY] = wanted[index].spot;
    frame.labelled.push({ point: wanted[index].index, annotation: made.length, at: wanted[index].spot, leader: far ? made.length + 1 : null });
    add(x, y, items[index].text, ink, { captureevents: false, ...ground });
    if (far) add(atX, atY, "", ink, { showarrow: true, arrowhead: 0, arrowwidth: 0.8, arrowcolor: ink, standoff: items[index].radius + 1, ax: Math.min(Math.max(atX, box.x0), box.x1) - atX, ay: Math.min(Math.max(atY, box.y0 + 2), box.y1 - 2) - atY });
  }
  for (const arrow of chart.arrows) {
    const [x, y] = pixel(...arrow.end), [x0, y0] = pixel(...arrow.start);
    made.push({ xref: "paper", yref: "paper", x: x / seen.width, y: 1 - y / seen.height, ax: x0 - x, ay: y0 - y, text: "", showarrow: true, arrowhead: 2, arrowwidth: 1.6, arrowcolor: groupColour(chart, arrow.group, "ink"), standoff: 5, startstandoff: 5 });
    if (arrow.label) {
      const wanted = [{ x: (x + x0) / 2, y: (y + y0) / 2, text: arrow.label, radius: 4 }];
      const [spot] = [...place(wanted, dots, [...taken, ...arrows], seen, font), ...place(wanted, dots, taken, seen, font)];
      if (spot) { taken.push(spot.box); add(spot.x, spot.y, arrow.label, groupColour(chart, arrow.group, "ink")); }
    }
  }
  return made;
}

/* Along the line, where there is room: flat lines near their right end, sloped ones at their lower part. Off other lines and dots where that
   is possible, else off the dots. */
function lineLabel(line, pixel, seen, font, labels, others, dots, add) {
  const spots = line.points.map((point) => pixel(...point));
  const draw = Math.abs(spots.at(-1)[1] - spots[0][1]) < 2 ? flatLabel : slopedLabel;
  const texts = [line.label, ...(draw === flatLabel && seen.width < FEW_WORDS ? [line.label.replace(ENGINE, "")] : [])];
  for (const avoided of [others, dots]) {
    const free = (box) => !labels.some((other) => hits(box, other)) && !avoided.some((other) => hits(box, other));
    for (const text of new Set(texts)) {
      const found = draw(spots, textWidth(text, font), seen, free);
      if (!found) continue;
      labels.push(...found.boxes);
      return add({ ...found, text, crossing: avoided === dots });
    }
  }
}

/* At the foot of an upright mark: to its right or left, off other labels and off the roofs; where there is no room for the words, the number alone,
   in the colour of its line, as the axis has the unit. */
function markLabel(label, x, seen, font, taken, roofs) {
  const number = label.match(/[\d.,]+(?= (?:FLOP|OP)\/B$)/)?.[0];
  const boxed = (text, right, y) => {
    const wide = textWidth(text, font) + 4, x0 = right ? x + 4 : x - 4 - wide;
    return { text, y, box: { x0, x1: x0 + wide, y0: y - 7, y1: y + 7 } };
  };
  const free = ({ box }, avoided) => box.x0 >= 0 && box.x1 <= seen.width && !taken.some((other) => hits(box, other)) && !avoided.some((other) => hits(box, other));
  const rows = Array.from({ length: 5 }, (_, row) => seen.height - 9 - 15 * row);
  const spots = [label, ...(number && seen.width < FEW_WORDS ? [number] : [])].flatMap((text) => rows.flatMap((y) => [true, false].map((right) => boxed(text, right, y))));
  return spots.find((spot) => free(spot, roofs)) ?? spots.find((spot) => free(spot, [])) ?? boxed(number ?? label, x < seen.width / 2, rows[0]);
}

function flatLabel(spots, wide, seen, free) {
  const [[x0, y0], [x1]] = [spots[0], spots.at(-1)];
  const from = Math.max(0, Math.min(x0, x1)), to = Math.min(seen.width, Math.max(x0, x1));
  if (y0 < 8 || y0 > seen.height) return null;
  for (const x of [to - wide / 2 - 4, from + wide / 2 + 4, seen.width - wide / 2 - 4]) {
    for (const y of [y0 - 9, y0 + 9, y0 - 16, y0 + 16]) {
      const box = { x0: x - wide / 2, x1: x + wide / 2, y0: y - 7, y1: y + 7 };
      if (box.x0 >= 0 && box.x1 <= seen.width && box.y0 > -8 && free(box)) return { x, y, angle: 0, boxes: [box] };
    }
  }
  return null;
}

function slopedLabel(spots, wide, seen, free) {
  const from = Math.max(0, spots[0][0]), to = Math.min(seen.width, spots.at(-1)[0]);
  for (const lift of [11, -11, 26, -26]) {
    for (const share of [0.35, 0.6, 0.2, 0.8, 0.45, 0.1, 0.7, 0.9]) {
      const x = from + (to - from) * share, reach = wide * 0.35;
      const [low, y, high] = [heightAt(spots, x - reach), heightAt(spots, x), heightAt(spots, x + reach)];
      if (low === null || y === null || high === null) continue;
      const slope = (high - low) / (2 * reach), turn = Math.atan(slope);
      const cx = x + lift * Math.sin(turn), cy = y - lift * Math.cos(turn);
      const halfX = (wide / 2) * Math.cos(turn), halfY = Math.abs((wide / 2) * Math.sin(turn));
      if (cx - halfX < 0 || cx + halfX > seen.width || cy - halfY < 0 || cy + halfY > seen.height) continue;
      const steps = 6, boxes = Array.from({ length: steps }, (_, index) => {
        const part = (index + 0.5) / steps - 0.5, px = cx + 2 * halfX * part, py = cy + Math.sign(slope) * 2 * halfY * part;
        return { x0: px - halfX / steps - 4, x1: px + halfX / steps + 4, y0: py - 9, y1: py + 9 };
      });
      if (boxes.every(free)) return { x: cx, y: cy, angle: (turn * 180) / Math.PI, boxes };
    }
  }
  return null;
}

/* Where a line is above a place of the x axis, in pixels; null to the sides of it. */
function heightAt(spots, x) {
  const next = spots.findIndex(([right], index) => index > 0 && x >= spots[index - 1][0] && x <= right);
  if (next < 0) return null;
  const [[x0, y0], [x1, y1]] = [spots[next - 1], spots[next]];
  return x1 === x0 ? y0 : y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
}

/* Small boxes along a line that labels keep off. */
function obstacles(line, pixel, seen) {
  const boxes = [];
  for (let index = 1; index < line.points.length && boxes.length < MAX_OBSTACLES; index++) {
    const [x0, y0] = pixel(...line.points[index - 1]), [x1, y1] = pixel(...line.points[index]);
    if (![x0, y0, x1, y1].every(Number.isFinite)) continue;
    const steps = Math.min(300, Math.ceil(Math.hypot(x1 - x0, y1 - y0) / 8));
    for (let step = 0; step <= steps; step++) {
      const x = x0 + ((x1 - x0) * step) / (steps || 1), y = y0 + ((y1 - y0) * step) / (steps || 1);
      if (x >= 0 && y >= 0 && x <= seen.width && y <= seen.height) boxes.push({ x0: x - 2, x1: x + 2, y0: y - 2, y1: y + 2 });
    }
  }
  return boxes;
}

const FEW_WORDS = 340; // pixels of a plot, below which words are left to the colours and the axis
const ENGINE = /(?<=\S) (?:fp|bf|tf|int|mxfp|nvfp)\d+(?:_\w+)? (?:tensor|vector)(?= )/;
const ON_LINES = () => ({ bgcolor: `${colour("background")}d0` }); // a label that had to cross a line
const labelText = (point) => shortened(point.label);
const hits = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
function fitting(text, room, font) {
  let kept = text;
  while (kept.length > 4 && textWidth(kept, font) > room) kept = `${kept.replace(/…$/, "").slice(0, -1)}…`;
  return kept;
}
const shortened = (text) => (text.length > 34 ? `${text.slice(0, 33)}…` : text);

function bars(frame, chart, options) {
  const layout = base(frame, options);
  const font = `12px ${FONT}`, most = layout.width * 0.45;
  const labels = chart.bars.map((bar) => fitting(shortened(bar.label), most - 14, font));
  layout.margin = { ...MARGIN, l: Math.max(60, ...labels.map((text) => textWidth(text, font))) + 14 };
  layout.height = options.height ?? Math.max(MIN_HEIGHT, chart.bars.length * 28 + 80);
  const across = layout.width - layout.margin.l - layout.margin.r, [low, high] = chart.x.range;
  // every bar leaves room for its figures at its end
  const room = (bar) => Math.max(across * 0.3, across - textWidth(bar.text, font) - 12);
  const end = chart.x.scale === "log" ? high : Math.max(high, ...chart.bars.map((bar) => (Math.max(bar.value, bar.start ?? 0) * across) / room(bar)));
  layout.xaxis = { ...axisLayout(chart.x), range: [toAxis(chart.x, low), toAxis(chart.x, end)] };
  Object.assign(layout.xaxis, legible(chart.x, [low, end], across));
  layout.yaxis = { tickvals: chart.bars.map((_, index) => index), ticktext: labels.map(plain), autorange: "reversed", zeroline: false, showgrid: false, fixedrange: true, linecolor: colour("frame") };
  layout.bargap = 0.35;
  const trace = {
    type: "bar", orientation: "h", y: chart.bars.map((_, index) => index), x: chart.bars.map((bar) => bar.value - (bar.start ?? 0)), base: chart.bars.map((bar) => bar.start ?? 0),
    text: chart.bars.map((bar) => plain(bar.text)), textposition: "outside", cliponaxis: false, hoverinfo: "text", hovertext: chart.bars.map((bar) => `<b>${plain(bar.label)}</b><br>${plain(bar.text)}`),
    marker: { color: chart.bars.map((bar) => groupColour(chart, bar.group, bar.role === "loss" ? "c3" : "c0")) },
  };
  return { traces: [trace, ...lineTraces(chart)], layout };
}
