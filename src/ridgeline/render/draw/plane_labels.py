"""Places the names on a plot of known size, in points of 1/72 inch: captions, roofs, points and arrows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product

from ..chart import Chart, Line, Mark, Point, Region
from .labels import position, shorten
from .placement import Anchor, Box, Disc, Obstacles, Placed, Segment, distance, place, place_in_rows
from .themes import HEAD_SIZE, SMALL_SIZE, ChartStyle, Entry, dot_radius

RADIUS = {
    "sample": 2.2,
    "expected": 4.6,
    "overhead": 4.8,
    "floor": 3.4,
    "observed": 5.0,
    "target": 5.0,
    "ridge": 4.4,
    "value": 4.4,
}
DEFAULT_RADIUS, ARROW_RADIUS, MARKER_GAP = 4.0, 3.0, 0.8
FRAME_GAP = 2.0  # between a label and the edge of the plot
HINTING = 1.04  # a viewer that hints its fonts draws texts this much wider
LINE_HEIGHT, CAPTION_HEIGHT, ROOF_HEIGHT = 11.5, 14.0, 11.0
CAPTION_GAP = 6.0  # between a caption and the edge of its region
ROOF_GAP = 8.5  # from a roof to the middle of its name
LINE_NAME_PLACES = (0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)  # along a line, from its end
MARK_NAME_PLACES = (0.96, 0.88, 0.78, 0.66, 0.5, 0.3)  # along the line of a mark
MAX_NAME_GAP = 10.0  # a name farther from its line would need a leader
MAX_NUMBERED = 0.3  # when more of the labels than this find no place, all become numbers


@dataclass(frozen=True)
class Label:
    """A text by its middle; `leader` is a line to what it names."""

    text: str
    x: float
    y: float
    colour: str
    gid: str
    size: float = SMALL_SIZE
    weight: str = "normal"
    angle: float = 0.0
    leader: Segment | None = None


@dataclass(frozen=True)
class _Name:
    """The name of a point or an arrow before it is placed."""

    text: str
    x: float
    y: float
    radius: float
    full_name: str
    colour: str
    gid: str


@dataclass
class PlaneLabels:
    """The labels of a chart on a plot of `width` by `height`, (0, 0) at its lower left corner."""

    chart: Chart
    width: float
    height: float
    style: ChartStyle
    labels: list[Label] = field(default_factory=list)
    legend_entries: list[Entry] = field(default_factory=list)  # roofs whose name found no place along them
    numbered: list[str] = field(default_factory=list)  # the list of names that numbers stand for
    dropped: int = 0

    def __post_init__(self) -> None:
        chart = self.chart
        self.frame = Box(FRAME_GAP, FRAME_GAP, self.width - FRAME_GAP, self.height - FRAME_GAP)
        self.obstacles = Obstacles(
            [Disc(*self.at(point.x, point.y), radius_of(point) + MARKER_GAP) for point in chart.points],
            list(self._segments()),
        )
        for region in chart.regions:
            self._place_caption(region)
        for index, line in enumerate(chart.lines):
            if line.role == "bandwidth" and line.label:
                self._place_roof_name(index, line)
        for index, mark in enumerate(chart.marks):
            if mark.label and mark.role == "ridge":
                self._place_mark_name(index, mark)
        for index, line in enumerate(chart.lines):
            if line.role in ("series", "target") and line.label:
                places = [self.at(*line.points[-1 - int(part * (len(line.points) - 1))]) for part in LINE_NAME_PLACES]
                colour, gid = style_colour(line, self.style), self.style.gid("line-name", index)
                self._place_line_name(line.label, places, colour, gid, "-" if line.role == "series" else "--")
        self._place_names(list(self._names()))

    def at(self, x: float, y: float) -> tuple[float, float]:
        return position(self.chart.x, x, 0, self.width), position(self.chart.y, y, 0, self.height)

    def _segments(self) -> Iterator[Segment]:
        chart = self.chart
        for line in chart.lines:
            yield from pairwise(self.at(*point) for point in line.points)
        for mark in chart.marks:
            if mark.axis == "x":
                x = position(chart.x, mark.value, 0, self.width)
                yield (x, 0.0), (x, self.height)
            else:
                y = position(chart.y, mark.value, 0, self.height)
                yield (0.0, y), (self.width, y)
        for arrow in chart.arrows:
            yield self.at(*arrow.start), self.at(*arrow.end)

    def _place_caption(self, region: Region) -> None:
        """At a free place near the bottom of the region."""
        (x0, x1), (y0, y1) = region.x or self.chart.x.range, region.y or self.chart.y.range
        area = Box(*self.at(x0, y0), *self.at(x1, y1)).clipped(self.width, self.height)
        size = HEAD_SIZE
        if area.x1 - area.x0 <= self.style.measure(size, "bold", region.label) + 14:
            size = SMALL_SIZE - 0.5
        boxes = list(self._caption_places(area, self.style.measure(size, "bold", region.label)))
        inner = Box(4, 4, self.width - 4, self.height - 4)
        free = (box for box in boxes if box.within(inner) and self.obstacles.leave_free(box, 3.0, 2.0))
        box = next(free, boxes[0])
        gid = self.style.gid("caption", region.role)
        self.labels.append(Label(region.label, *box.centre, self.style.palette["muted"], gid, size, "bold"))
        self.obstacles.boxes.append(box)

    def _caption_places(self, area: Box, width: float) -> Iterator[Box]:
        reach = width / 2 + CAPTION_GAP
        for up, along in product((0.0, 0.08, 0.16, 0.26, 0.4, 0.55, 0.7, 0.86), (0.5, 0.3, 0.7, 0.1, 0.9)):
            x = (area.x0 + area.x1) / 2
            if area.x1 - area.x0 > 2 * reach:
                x = min(max(area.x0 + (area.x1 - area.x0) * along, area.x0 + reach), area.x1 - reach)
            x = min(max(x, reach), self.width - reach)
            y = min(area.y0 + 12 + up * (area.y1 - area.y0), area.y1 - 10)
            yield Box.centred(x, y, width, CAPTION_HEIGHT)

    def _place_roof_name(self, index: int, line: Line) -> None:
        """Along the roof, above it if possible; in the legend when there is no free place."""
        colour = self.style.group_colour(line.group)
        roof = self.at(*line.points[0]), self.at(*line.points[-1])
        others = [segment for segment in self.obstacles.segments if segment != roof]
        (ax, ay), (bx, by) = roof
        length = math.hypot(bx - ax, by - ay) or math.inf
        ux, uy = (bx - ax) / length, (by - ay) / length
        width, side = self.style.measure(SMALL_SIZE, "normal", line.label), 1.24 * ROOF_HEIGHT
        upright = Obstacles(self.obstacles.discs, [], self.obstacles.boxes)
        for x, y in self._roof_places(roof, -uy * ROOF_GAP, ux * ROOF_GAP):
            # a slanted text is covered by upright boxes along its line
            count = max(2, math.ceil(width / ROOF_HEIGHT))
            middles = [(step + 0.5) / count * width - width / 2 for step in range(count)]
            boxes = [Box.centred(x + ux * middle, y + uy * middle, side, side) for middle in middles]
            if not all(box.within(self.frame) and upright.leave_free(box, 1.0) for box in boxes):
                continue
            text = (x - ux * width / 2, y - uy * width / 2), (x + ux * width / 2, y + uy * width / 2)
            if all(_segment_distance(text, other) >= 0.6 * ROOF_HEIGHT for other in others):
                angle = math.degrees(math.atan2(uy, ux))
                gid = self.style.gid("line-label", index)
                self.labels.append(Label(line.label, x, y, colour, gid, angle=angle))
                self.obstacles.boxes += boxes
                return
        self.legend_entries.append(Entry(line.label, colour, dash="-"))

    def _roof_places(self, roof: Segment, dx: float, dy: float) -> Iterator[tuple[float, float]]:
        """Middles along the part of the roof inside the frame, shifted to one side of it, then to the other."""
        (ax, ay), (bx, by) = roof
        parts = [step / 200 for step in range(201)]
        inside = [part for part in parts if self.frame.holds(ax + (bx - ax) * part, ay + (by - ay) * part)]
        for side, share in product((1, -1), (0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.7, 0.8)):
            if inside:
                part = inside[0] + (inside[-1] - inside[0]) * share
                yield ax + (bx - ax) * part + side * dx, ay + (by - ay) * part + side * dy

    def _place_mark_name(self, index: int, mark: Mark) -> None:
        """At the ridge point if there is one, else where the line of the mark enters the plot."""
        if mark.axis == "x":
            x = position(self.chart.x, mark.value, 0, self.width)
            corners = [
                self.at(dot.x, dot.y) for dot in self.chart.points if dot.role == "ridge" and dot.x == mark.value
            ]
            places = [*corners, *((x, self.height * part) for part in MARK_NAME_PLACES)]
        else:
            y = position(self.chart.y, mark.value, 0, self.height)
            places = [(self.width * (1 - part), y) for part in MARK_NAME_PLACES]
        gid = self.style.gid("mark-name", index)
        self._place_line_name(mark.label, places, self.style.mark_colour(mark), gid, "--")

    def _place_line_name(self, text: str, places: list[tuple[float, float]], colour: str, gid: str, dash: str) -> None:
        """The name of a line beside the first of these places with room; in the legend when there is none."""
        width = self.style.measure(SMALL_SIZE, "normal", text) * HINTING + 1
        for x, y in places:
            (placed,) = place(
                [Anchor(x, y, width, LINE_HEIGHT, ARROW_RADIUS)], self.frame, self.obstacles, MAX_NAME_GAP
            )
            if placed is not None:
                self.labels.append(Label(text, *placed.box.centre, colour, gid))
                self.obstacles.boxes.append(placed.box)
                return
        self.legend_entries.append(Entry(text, colour, dash=dash))

    def _names(self) -> Iterator[_Name]:
        style = self.style
        for index, point in enumerate(self.chart.points):
            if point.label:
                at = self.at(point.x, point.y)
                full_name = point.label if point.name in point.label else point.name
                gid = style.gid("label", index)
                yield _Name(point.label, *at, radius_of(point), full_name, style.point_colour(point), gid)
        for index, arrow in enumerate(self.chart.arrows):
            if arrow.label:
                (ax, ay), (bx, by) = self.at(*arrow.start), self.at(*arrow.end)
                colour, gid = style.group_colour(arrow.group), style.gid("arrow-label", index)
                yield _Name(arrow.label, (ax + bx) / 2, (ay + by) / 2, ARROW_RADIUS, arrow.label, colour, gid)

    def _place_names(self, names: list[_Name]) -> None:
        texts, places = self._texts_and_places(names)
        for text, placed, name in zip(texts, places, names, strict=True):
            number = text != name.text
            if number:
                self.numbered.append(f"{text}  {shorten(name.full_name, 60)}")
            if placed is None:
                self.dropped += 1
            else:
                weight = "bold" if number else "normal"
                self.labels.append(
                    Label(text, *placed.box.centre, name.colour, name.gid, weight=weight, leader=placed.leader)
                )
        self.numbered.sort(key=lambda line: int(line.split()[0]))

    def _texts_and_places(self, names: list[_Name]) -> tuple[list[str], list[Placed | None]]:
        """A name without a free place becomes a number; all do when many have none, and then form rows if they must."""
        texts = [name.text for name in names]
        order = sorted(range(len(names)), key=lambda index: (names[index].x, names[index].y, index))
        numbered: set[int] = set()
        while True:
            anchors = [
                self._anchor(text, name, index in numbered)
                for index, (text, name) in enumerate(zip(texts, names, strict=True))
            ]
            places = place(anchors, self.frame, self.obstacles)
            failed = {index for index, placed in enumerate(places) if placed is None}
            if not failed:
                return texts, places
            if len(numbered) == len(names):
                rows = place_in_rows(anchors, self.frame, self.obstacles)
                return texts, places if rows is None else list(rows)
            everything = bool(numbered) or len(failed) > MAX_NUMBERED * len(names)
            numbered = set(order) if everything else failed
            ranks = {index: rank for rank, index in enumerate((index for index in order if index in numbered), 1)}
            texts = [str(ranks[index]) if index in numbered else name.text for index, name in enumerate(names)]

    def _anchor(self, text: str, name: _Name, number: bool) -> Anchor:
        width = self.style.measure(SMALL_SIZE, "bold" if number else "normal", text)
        return Anchor(name.x, name.y, width * HINTING + 1, LINE_HEIGHT, name.radius)


def radius_of(point: Point) -> float:
    return RADIUS.get(point.role, DEFAULT_RADIUS) if point.share is None else dot_radius(point.share)


def style_colour(line: Line, style: ChartStyle) -> str:
    return style.group_colour(line.group, "muted")


def _segment_distance(text: Segment, other: Segment) -> float:
    """The distance between two segments, sampled finely enough for texts."""
    (ax, ay), (bx, by) = text
    return min(distance(other, ax + (bx - ax) * step / 24, ay + (by - ay) * step / 24) for step in range(25))
