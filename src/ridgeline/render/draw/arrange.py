"""Arranges a chart on paper before anything is drawn, in points of 1/72 inch: its margins, ticks, labels and legend.

Margins follow from the texts that stand in them. A text is measured by whoever draws it, with the font it is drawn in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from ..chart import Chart, Line, Mark, Point, Region
from .labels import COLOURS, Box, Disc, Placed, Segment, Wanted, ladder, place, position, shorten, spread, ticks

TITLE, HEAD, BODY, SMALL = 14.0, 11.0, 9.5, 9.0  # sizes of text
WIDTH, COLUMN, PLOT, EDGE = 760.0, 560.0, 380.0, 18.0
BOLD = 1.16  # how much wider bold letters run
RADIUS = {"expected": 4.6, "overhead": 4.8, "floor": 3.4, "observed": 5.0, "target": 5.0, "ridge": 4.4, "value": 4.4}
MARKER = {"expected": "o", "overhead": "s", "floor": "_", "observed": "D", "target": "o", "ridge": "o", "value": "o"}

Measure = Callable[[str, float], float]  # a text and its size -> how wide it runs


@dataclass
class Label:
    """An upright text in its box."""

    text: str
    box: Box
    leader: Segment | None
    colour: str
    gid: str
    size: float = SMALL
    weight: str = "normal"


@dataclass
class Slanted:
    """A text along a roof, by its middle."""

    text: str
    x: float
    y: float
    angle: float
    colour: str
    gid: str


@dataclass
class Entry:
    """One legend entry: a swatch and a text."""

    text: str
    colour: str
    marker: str = ""
    dash: str = ""


@dataclass
class Arranged:
    """A chart laid out in its own plot coordinates, (0, 0) bottom left."""

    chart: Chart
    width: float
    height: float
    left: float
    right: float
    x_ticks: list[tuple[float, str]] = field(default_factory=list)
    y_ticks: list[tuple[float, str]] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    slanted: list[Slanted] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    numbered: list[str] = field(default_factory=list)
    dropped: int = 0


def arrange(
    chart: Chart,
    column: float,
    palette: dict[str, str],
    groups: list[str],
    number: int,
    measure: Measure,
) -> Arranged:
    """The chart in a column of the page, its look by its kind; `number` is its place among the charts of a picture."""
    if chart.look == "bars":
        return _bars(chart, column, measure)
    if chart.look == "pyramid":
        return Arranged(chart, column - 2 * EDGE, 46.0 * len(chart.bars), EDGE, EDGE)
    tall = PLOT if chart.y.shown else 150.0
    y_ticks = ticks(chart.y, 8) if chart.y.shown else []
    left = EDGE + (max((measure(label, SMALL) for _, label in y_ticks), default=0.0) + 26.0 if chart.y.shown else 8.0)
    beside = [(index, line) for index, line in enumerate(chart.lines) if line.role == "peak" and line.label]
    right = EDGE + max((measure(line.label, SMALL) + 10 for _, line in beside), default=8.0)
    right = max(right, 28.0)
    plane = Arranged(
        chart, column - left - right, tall, left, right, ticks(chart.x, 11 if column > COLUMN else 7), y_ticks
    )
    _label_plane(plane, beside, palette, groups, number, measure)
    return plane


def _bars(chart: Chart, column: float, measure: Measure) -> Arranged:
    left = EDGE + max(measure(bar.label, BODY) for bar in chart.bars) + 10
    right = 28.0
    for _ in range(12):
        width = max(column - left - right, 80.0)
        right = max(
            [
                28.0,
                *(
                    measure(bar.text, SMALL) + 12 + EDGE - width * (1 - position(chart.x, bar.value, 0.0, 1.0))
                    for bar in chart.bars
                ),
            ]
        )
    return Arranged(
        chart,
        max(column - left - right, 80.0),
        27.0 * len(chart.bars) + 10,
        left,
        right,
        ticks(chart.x, 6 if column > COLUMN else 5),
    )


def _label_plane(
    plane: Arranged,
    beside: list[tuple[int, Line]],
    palette: dict[str, str],
    groups: list[str],
    number: int,
    measure: Measure,
) -> None:
    chart, width, height = plane.chart, plane.width, plane.height
    frame = Box(2, 2, width - 2, height - 2)

    def at(x: float, y: float) -> tuple[float, float]:
        return position(chart.x, x, 0, width), position(chart.y, y, 0, height)

    # roofs that leave on the right have their names in the margin there
    centres = spread([at(*line.points[-1])[1] for _, line in beside], 12.5, -6.0, height + 12.0)
    for (index, line), centre in zip(beside, centres, strict=True):
        y = at(*line.points[-1])[1]
        leader = ((width, y), (width + 7, centre)) if abs(centre - y) > 1 else None
        box = Box(width + 8, centre - 6, width + 8 + measure(line.label, SMALL), centre + 6)
        plane.labels.append(
            Label(
                line.label, box, leader, group_colour(palette, groups, line.group), gid_of(number, "line-label", index)
            )
        )

    segments = [segment for line in chart.lines for segment in _clip(line, chart, width, height)]
    for mark in chart.marks:
        where = at(mark.value, chart.y.range[0])[0] if mark.axis == "x" else at(chart.x.range[0], mark.value)[1]
        segments.append(((where, 0.0), (where, height)) if mark.axis == "x" else ((0.0, where), (width, where)))
    segments += [(at(*arrow.start), at(*arrow.end)) for arrow in chart.arrows]
    discs = [Disc(*at(point.x, point.y), RADIUS.get(point.role, 4.0) + 0.8) for point in chart.points]

    taken: list[Box] = []
    for region in chart.regions:
        taken.append(_caption(plane, region, taken, discs, segments, palette, number, measure))
    for index, line in enumerate(chart.lines):
        if line.role == "bandwidth" and line.label:
            colour = group_colour(palette, groups, line.group)
            found = _along(line, at, frame, taken, discs, segments, measure)
            if found is None:
                plane.entries.append(Entry(line.label, colour, dash="-"))
            else:
                slant, boxes = found
                plane.slanted.append(Slanted(line.label, *slant, colour, gid_of(number, "line-label", index)))
                taken += boxes

    texts, wanted, whose = [], [], []
    for index, point in enumerate(chart.points):
        if point.label:
            texts.append(point.label)
            wanted.append((*at(point.x, point.y), RADIUS.get(point.role, 4.0)))
            whose.append(
                (gid_of(number, "label", index), point_colour(palette, groups, point), point.name or point.label)
            )
    for index, arrow in enumerate(chart.arrows):
        if arrow.label:
            (ax, ay), (bx, by) = at(*arrow.start), at(*arrow.end)
            texts.append(arrow.label)
            wanted.append(((ax + bx) / 2, (ay + by) / 2, 3.0))
            whose.append(
                (gid_of(number, "arrow-label", index), group_colour(palette, groups, arrow.group), arrow.label)
            )
    shown, placed = _fit(texts, wanted, frame, discs, segments, taken, measure)
    for label, spot, original, (gid, colour, name) in zip(shown, placed, texts, whose, strict=True):
        if label != original:
            plane.numbered.append(f"{label}  {shorten(name, 60)}")
        if spot is None:
            plane.dropped += 1
            continue
        plane.labels.append(
            Label(label, spot.box, spot.leader, colour, gid, weight="bold" if label != original else "normal")
        )


def _clip(line: Line, chart: Chart, width: float, height: float) -> list[Segment]:
    spots = [(position(chart.x, x, 0, width), position(chart.y, y, 0, height)) for x, y in line.points]
    return list(pairwise(spots))


def _fit(
    texts: list[str],
    wanted: list[tuple[float, float, float]],
    frame: Box,
    discs: list[Disc],
    segments: list[Segment],
    taken: list[Box],
    measure: Measure,
) -> tuple[list[str], list[Placed | None]]:
    """Texts with their places; what finds no place becomes a number, and everything does when much of it finds none."""
    shown = list(texts)
    order = sorted(range(len(texts)), key=lambda index: (wanted[index][0], wanted[index][1], index))
    placed: list[Placed | None] = []
    for attempt in range(4):
        sizes = [
            Wanted(x, y, measure(label, SMALL) * (1 if label == whole else BOLD) + 1, 11.5, radius)
            for label, whole, (x, y, radius) in zip(shown, texts, wanted, strict=True)
        ]
        placed = place(sizes, frame, discs, segments, taken)
        if any(spot is None for spot in placed) and all(
            label != whole for label, whole in zip(shown, texts, strict=True)
        ):
            row = ladder(sizes, frame, discs, segments, taken)
            if row is not None:
                return shown, list(row)
        failed = [index for index, spot in enumerate(placed) if spot is None]
        if not failed or attempt == 3:
            break
        many = len(failed) > 0.3 * len(texts)
        many = many or attempt > 0
        chosen = {index for index in range(len(texts)) if many or index in failed or shown[index] != texts[index]}
        numbers = {index: str(rank + 1) for rank, index in enumerate(index for index in order if index in chosen)}
        shown = [numbers.get(index, label) for index, label in enumerate(texts)]
    return shown, placed


def _caption(
    plane: Arranged,
    region: Region,
    taken: list[Box],
    discs: list[Disc],
    segments: list[Segment],
    palette: dict[str, str],
    number: int,
    measure: Measure,
) -> Box:
    """A region's caption where nothing is, near the bottom of its span."""
    chart, width, height = plane.chart, plane.width, plane.height
    x0, x1 = (position(chart.x, value, 0, width) for value in (region.x or chart.x.range))
    y0, y1 = (position(chart.y, value, 0, height) for value in (region.y or chart.y.range))
    x0, x1, y0, y1 = (
        max(0.0, min(x0, width)),
        max(0.0, min(x1, width)),
        max(0.0, min(y0, height)),
        max(0.0, min(y1, height)),
    )
    # a narrow region gets a smaller caption
    size = HEAD if x1 - x0 > measure(region.label, HEAD) * BOLD + 14 else SMALL - 0.5
    wide, high = measure(region.label, size) * BOLD, 14.0
    inner = Box(4, 4, width - 4, height - 4)
    boxes = []
    for up in (0.0, 0.08, 0.16, 0.26, 0.4, 0.55, 0.7, 0.86):
        for part in (0.5, 0.3, 0.7, 0.1, 0.9):
            cx = (
                min(max(x0 + (x1 - x0) * part, x0 + wide / 2 + 6), x1 - wide / 2 - 6)
                if x1 - x0 > wide + 12
                else (x0 + x1) / 2
            )
            cx = min(max(cx, wide / 2 + 6), width - wide / 2 - 6)
            cy = min(y0 + 12 + up * (y1 - y0), y1 - 10)
            boxes.append(Box(cx - wide / 2, cy - high / 2, cx + wide / 2, cy + high / 2))
    free = [
        box for box in boxes
        if box.within(inner) and not any(box.overlaps(other, 3) for other in taken) and not any(disc.touches(box) for disc in discs) and not any(box.crossed_by(segment, 2) for segment in segments)
    ]  # fmt: skip
    box = free[0] if free else boxes[0]
    plane.labels.append(
        Label(region.label, box, None, palette["muted"], gid_of(number, "caption", region.role), size, "bold")
    )
    return box


def _along(
    line: Line,
    at: Callable[[float, float], tuple[float, float]],
    frame: Box,
    taken: list[Box],
    discs: list[Disc],
    segments: list[Segment],
    measure: Measure,
) -> tuple[tuple[float, float, float], list[Box]] | None:
    """A place for a roof's name along the roof, above it if possible: centre, angle and the boxes it covers."""
    (ax, ay), (bx, by) = at(*line.points[0]), at(*line.points[-1])
    length = math.hypot(bx - ax, by - ay)
    if length == 0:
        return None
    ux, uy = (bx - ax) / length, (by - ay) / length
    # the part of the roof that is inside the frame
    inside = [
        step / 200 for step in range(201) if frame.holds(ax + (bx - ax) * step / 200, ay + (by - ay) * step / 200)
    ]
    if not inside:
        return None
    wide, high = measure(line.label, SMALL), 11.0
    own = ((ax, ay), (bx, by))
    others = [segment for segment in segments if segment != own]
    for away in (8.5, -8.5):
        for part in (0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.7, 0.8):
            along = (inside[0] + (inside[-1] - inside[0]) * part) * length
            cx, cy = ax + ux * along - uy * away, ay + uy * along + ux * away
            count = max(2, math.ceil(wide / high))
            middles = [(step + 0.5) / count * wide - wide / 2 for step in range(count)]
            half = high * 0.62
            boxes = [
                Box(cx + ux * middle - half, cy + uy * middle - half, cx + ux * middle + half, cy + uy * middle + half)
                for middle in middles
            ]
            ends = ((cx - ux * wide / 2, cy - uy * wide / 2), (cx + ux * wide / 2, cy + uy * wide / 2))
            if not all(box.within(frame) for box in boxes) or any(
                box.overlaps(other, 1) for box in boxes for other in taken
            ):
                continue
            if any(disc.touches(box) for box in boxes for disc in discs) or any(
                _distance(ends, segment) < high * 0.6 for segment in others
            ):
                continue
            return (cx, cy, math.degrees(math.atan2(uy, ux))), boxes
    return None


def _distance(one: Segment, other: Segment) -> float:
    """Least distance between two segments, sampled finely enough for texts."""
    (ax, ay), (bx, by) = one
    best = math.inf
    for step in range(25):
        x, y = ax + (bx - ax) * step / 24, ay + (by - ay) * step / 24
        (px, py), (qx, qy) = other
        size = (qx - px) ** 2 + (qy - py) ** 2
        part = 0.0 if size == 0 else max(0.0, min(1.0, ((x - px) * (qx - px) + (y - py) * (qy - py)) / size))
        best = min(best, math.hypot(x - px - part * (qx - px), y - py - part * (qy - py)))
    return best


def legend(plane: Arranged, palette: dict[str, str], groups: list[str]) -> list[Entry]:
    """Groups, marks and what else the picture does not say by itself."""
    chart = plane.chart
    entries = []
    for group in chart.groups():
        points = [point for point in chart.points if point.group == group and point.role not in ("floor", "ridge")]
        lines = [line for line in chart.lines if line.group == group and line.role in ("series", "bandwidth", "peak")]
        ridges = [point for point in chart.points if point.group == group and point.role == "ridge"]
        colour = group_colour(palette, groups, group)
        if points:
            roles = {point.role for point in points}
            entries.append(
                Entry(group, colour, MARKER[points[0].role] if len(roles) == 1 and points[0].role in MARKER else "o")
            )
        elif lines and any(mark.group == group and mark.label for mark in chart.marks):
            continue  # the mark's own entry names the group
        elif lines:
            entries.append(Entry(group, colour, dash="-"))
        elif any(bar.group == group for bar in chart.bars):
            entries.append(Entry(group, colour, "s"))
        elif ridges:
            entries.append(Entry(group, colour, "o"))
    if chart.look == "plane" and len([entry for entry in entries if entry.marker]) == 1 and chart.kind == "scale":
        entries = []
    for mark in chart.marks:
        if mark.label:
            entries.append(
                Entry(
                    mark.label,
                    mark_colour(palette, groups, mark),
                    "o" if mark.role == "ridge" and mark.axis == "x" else "",
                    "--" if mark.role == "ridge" else ":",
                )
            )
    return entries + plane.entries


def group_colour(palette: dict[str, str], groups: list[str], group: str, otherwise: str = "ink") -> str:
    return palette[f"c{groups.index(group) % COLOURS}"] if group in groups else palette[otherwise]


def point_colour(palette: dict[str, str], groups: list[str], point: Point) -> str:
    if point.role == "ridge" and not point.group:
        return palette["ridge"]
    return group_colour(palette, groups, point.group, "c0")


def mark_colour(palette: dict[str, str], groups: list[str], mark: Mark) -> str:
    return group_colour(palette, groups, mark.group, "ridge" if mark.role == "ridge" else "muted")


def gid_of(number: int, kind: str, index: int | str = "") -> str:
    """The id of an element of chart `number`."""
    return f"c{number}-{kind}" + (f"-{index}" if index != "" else "")
