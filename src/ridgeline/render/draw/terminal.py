"""Draws any chart as text: axes in braille dots or plain ASCII, bars, pyramids; colour only when asked."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import pairwise

from ..chart import Chart, Picture, Point, step_sizes
from .canvas import CODES, Canvas, Pen
from .labels import amount, position, shorten, tick_text, ticks, wrap

MIN_WIDTH, MIN_HEIGHT, SCALE_HEIGHT = 40, 8, 7
MAX_BAR_LABEL, MIN_BAR_ROOM = 24, 8
MIN_PYRAMID_WIDTH, MAX_PYRAMID_WIDTH = 16, 40
MAX_NAME = 40
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def draw(picture: Picture, width: int = 80, height: int = 22, ascii: bool = False, colour: bool = False) -> str:
    """The picture as lines of text no wider than `width`; `height` is that of the plot itself.

    Colour stays off for a user who has set NO_COLOR, whoever asks for it.
    """
    colour = colour and not os.environ.get("NO_COLOR")
    pen = Pen(max(MIN_WIDTH, width), picture.groups(), ascii, colour)
    lines = [line for chart in picture.charts for line in [*_chart(chart, pen, max(MIN_HEIGHT, height)), ""]]
    if not isinstance(picture, Chart):
        lines = [*_heading(picture, pen), "", *lines, *_notes(picture, pen)]
    return "\n".join(lines).rstrip() + "\n"


def _heading(picture: Picture, pen: Pen) -> list[str]:
    return pen.paragraph(picture.title, CODES["title"]) + pen.paragraph(picture.subtitle, CODES["muted"])


def _notes(picture: Picture, pen: Pen) -> list[str]:
    return [line for note in picture.notes for line in pen.paragraph(note, CODES["muted"])]


def _chart(chart: Chart, pen: Pen, height: int) -> list[str]:
    if chart.look == "bars":
        body = _bars(chart, pen)
    elif chart.look == "pyramid":
        body = _pyramid(chart, pen)
    elif chart.look == "icicle":
        body = _icicle(chart, pen)
    else:
        body = _draw_plane(chart, pen, height if chart.y.shown else SCALE_HEIGHT)
    return [*_heading(chart, pen), "", *body, *_notes(chart, pen)]


def _bars(chart: Chart, pen: Pen) -> list[str]:
    labels = [pen.spell(shorten(bar.label, MAX_BAR_LABEL)) for bar in chart.bars]
    texts = [pen.spell(bar.text) for bar in chart.bars]
    margin = max(map(len, labels)) + 1
    room = pen.width - margin - max(map(len, texts)) - 2
    beside = room >= MIN_BAR_ROOM  # on a narrow terminal the figures go under their bar
    room = room if beside else pen.width - margin - 1
    full, patterns = ("#", {"loss": "-", "unexplained": "?"}) if pen.ascii else ("█", {"loss": "▒", "unexplained": "░"})
    lines = []
    previous = None
    for bar, label, text in zip(chart.bars, labels, texts, strict=True):
        start = round(position(chart.x, chart.x.range[0] if bar.start is None else bar.start, 0, room))
        length = max(1, round(position(chart.x, bar.value, 0, room)) - start)
        body = pen.paint(patterns.get(bar.role, full) * length, pen.group_code(bar.group, "34"))
        row = (label if label != previous else "").rjust(margin - 1) + " " * (1 + start) + body
        lines += [f"{row} {text}"] if beside else [row, *_indented(text, pen)]
        previous = label
    groups = [group for group in pen.groups if any(bar.group == group for bar in chart.bars)]
    if len(groups) > 1:
        entries = (pen.paint(f"{full} {pen.spell(group)}", pen.group_code(group)) for group in groups)
        lines += ["", " ".join(entries)]
    return [*lines, ""]


def _pyramid(chart: Chart, pen: Pen) -> list[str]:
    texts = [pen.spell(bar.text) for bar in chart.bars]
    narrowest = max(len(bar.label) for bar in chart.bars) + 2
    widest = max(MIN_PYRAMID_WIDTH, min(MAX_PYRAMID_WIDTH, pen.width - max(map(len, texts)) - 2))
    full = max(widest, narrowest)
    lines = []
    for bar, text, size in zip(chart.bars, texts, step_sizes(chart), strict=True):
        width = max(narrowest, round(position(chart.x, size, 0, widest)))
        step = pen.paint(f"[{pen.spell(bar.label).center(width - 2)}]", pen.group_code(bar.group))
        left = (full - width) // 2
        if full + 1 + len(text) <= pen.width:
            lines.append(" " * left + step + " " * (full - width - left) + " " + text)
        else:
            lines += [" " * left + step, *_indented(text, pen)]
    return [*lines, ""]


def _icicle(chart: Chart, pen: Pen) -> list[str]:
    """A line of cells for every row of bars; then the axis, and the colours in words."""
    rows: dict[int, list[str]] = {}
    ends: dict[int, int] = {}
    wall, fill = ("|", ".") if pen.ascii else ("│", "·")
    for bar in chart.bars:
        first, last = (round(position(chart.x, value, 0, pen.width)) for value in (bar.start or 0.0, bar.value))
        room = last - first - 1
        if room < 1:
            continue
        both = f"{bar.label} {bar.text}"
        name = pen.spell(both if len(both) <= room else bar.label)[:room]
        cell = pen.paint(name.ljust(room, fill), pen.group_code(bar.group, "34")) + wall
        rows.setdefault(bar.depth, []).append(" " * (first - ends.get(bar.depth, 0)) + cell)
        ends[bar.depth] = last
    first_tick, last_tick = (tick_text(value, chart.x.unit) for value in chart.x.range)
    groups = " ".join(pen.paint(pen.spell(f"{fill} {group}"), pen.group_code(group)) for group in chart.groups())
    lines = ["".join(cells) for _, cells in sorted(rows.items())]
    return [*lines, "", f"{chart.x.label}: {first_tick} to {last_tick}", *([groups] if pen.colour else []), ""]


def _indented(text: str, pen: Pen) -> list[str]:
    return ["  " + line for line in wrap(text, pen.width - 2, len)]


@dataclass(frozen=True)
class _Listed:
    """A point with its letter; `under` is the letter that covers it on the canvas."""

    letter: str
    point: Point
    under: str


class _Plane:
    """A chart on a canvas beside the labels of its y axis."""

    def __init__(self, chart: Chart, pen: Pen, height: int) -> None:
        self.chart, self.pen, self.height = chart, pen, height
        self.y_ticks = ticks(chart.y, max(3, height // 3)) if chart.y.shown else []
        self.margin = max((len(label) + 1 for _, label in self.y_ticks), default=0)
        self.width = pen.width - self.margin - 1
        self.canvas = Canvas(self.width, height, not pen.ascii)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Column and row of a place, with fractions."""
        return self._column(x), self.height - 0.5 - position(self.chart.y, y, 0, self.height - 1)

    def _column(self, x: float) -> float:
        return position(self.chart.x, x, 0, self.width - 1) + 0.5

    def _row(self, y: float) -> int:
        return math.floor(self.at(self.chart.x.range[0], y)[1])

    def draw_lines(self) -> None:
        chart, pen = self.chart, self.pen
        for mark in chart.marks:
            code = pen.group_code(mark.group, CODES["ridge"])
            if mark.axis == "x":
                x = self._column(mark.value)
                self.canvas.line((x, 0), (x, self.height - 0.01), code, dotted=True)
            else:
                y = self.at(chart.x.range[0], mark.value)[1]
                self.canvas.line((0, y), (self.width, y), code)
        for line in chart.lines:
            code = pen.group_code(line.group, CODES["roof" if line.role in ("bandwidth", "peak") else "axis"])
            for start, end in pairwise(line.points):
                self.canvas.line(self.at(*start), self.at(*end), code, line.role == "guide" and chart.y.shown)
        for arrow in chart.arrows:
            self.canvas.line(self.at(*arrow.start), self.at(*arrow.end), pen.group_code(arrow.group))

    def draw_points(self) -> list[_Listed]:
        """Named points become letters; the list of them is returned."""
        listed: list[_Listed] = []
        letters: dict[tuple[int, int], str] = {}
        enough = sum(bool(point.label) for point in self.chart.points) <= len(LETTERS)
        for point in self.chart.points:
            column, row = (math.floor(value) for value in self.at(point.x, point.y))
            ridge = point.role == "ridge"
            code = self.pen.group_code(point.group, CODES["ridge"] if ridge else "")
            if point.label:
                letter, under = LETTERS[len(listed)] if enough else "*", letters.get((column, row), "")
                listed.append(_Listed(letter, point, under))
                if not under:
                    letters[column, row] = letter
                    self.canvas.put(column, row, letter, code or "1")
            elif point.role != "floor" or (column, row) not in letters:
                symbol = ("o^" if self.pen.ascii else "●▴")[not ridge]
                self.canvas.put(column, row, symbol, code, over=ridge)
        return listed

    def draw_captions(self) -> None:
        """Each at the lowest free place of its region, centred if possible."""
        for region in self.chart.regions:
            x0, x1 = (self._column(value) for value in (region.x or self.chart.x.range))
            bottom, top = (self._row(value) for value in (region.y or self.chart.y.range))
            label = self.pen.spell(region.label)
            middle = min(max(0, int((x0 + x1) / 2 - len(label) / 2)), max(0, self.width - len(label)))
            shifts = range(max(1, int(x1 - x0) - len(label)))
            columns = [middle, *(max(0, int(x0) + 1 + shift) for shift in shifts)]
            places = ((column, row) for row in range(bottom, top - 1, -1) for column in columns)
            free = (place for place in places if self.canvas.is_free(*place, len(label)))
            self.canvas.put(*next(free, (middle, bottom)), label, CODES["caption"])

    def lines(self) -> list[str]:
        """The canvas in its frame, with both axes."""
        chart, pen, margin = self.chart, self.pen, self.margin
        side, corner, foot = "|+-" if pen.ascii else "│└─"
        if not chart.y.shown:
            side, corner = " ", foot
        names = {self._row(value): label for value, label in self.y_ticks}
        lines = pen.paragraph(chart.y.title, CODES["axis"]) if chart.y.shown else []
        for row, words in enumerate(self.canvas.lines(pen)):
            name = names.get(row, "").rjust(margin - 1) + (" " if margin else "")
            lines.append(pen.paint(name, CODES["axis"]) + pen.paint(side, CODES["axis"]) + words)
        lines.append(" " * margin + pen.paint(corner + foot * self.width, CODES["axis"]))
        lines.append(pen.paint(self._x_labels(), CODES["axis"]))
        return lines + [
            pen.paint(words.center(pen.width).rstrip(), CODES["axis"]) for words in pen.lines(chart.x.title)
        ]

    def _x_labels(self) -> str:
        """Tick labels under their columns; one that would touch the previous one is left out."""
        text = ""
        for value, label in ticks(self.chart.x, max(3, self.width // 8)):
            start = self.margin + 1 + math.floor(self._column(value)) - len(label) // 2
            start = max(0, min(start, self.pen.width - len(label)))
            if start > len(text) or not text:
                text = text.ljust(start) + label
        return text[: self.pen.width].rstrip()


def _draw_plane(chart: Chart, pen: Pen, height: int) -> list[str]:
    plane = _Plane(chart, pen, height)
    plane.draw_lines()
    listed = plane.draw_points()
    plane.draw_captions()
    return [*plane.lines(), "", *_legend(chart, listed, pen), *_point_list(chart, listed, pen)]


def _legend(chart: Chart, listed: list[_Listed], pen: Pen) -> list[str]:
    """Roofs, reference lines and series in words."""
    lines = []
    roofs = [line.label for line in chart.lines if line.role in ("bandwidth", "peak") and line.label]
    if roofs:
        lines += pen.paragraph("roofs: " + "; ".join(roofs), CODES["roof"])
    for mark in chart.marks:
        lines += pen.paragraph(mark.label, pen.group_code(mark.group, CODES["ridge"]))
    # the list of points names the groups of points, so only lines without points are named here
    in_list = {item.point.group for item in listed}
    for group in pen.groups:
        if group not in in_list and any(
            line.group == group and line.role in ("series", "area") for line in chart.lines
        ):
            lines.append(pen.paint(pen.spell(f"line: {group}"), pen.group_code(group)))
    return lines


def _point_list(chart: Chart, listed: list[_Listed], pen: Pen) -> list[str]:
    """A row per point, its columns aligned; on a narrow terminal the figures go under the name."""
    if not listed:
        return []
    rows = [
        [
            item.letter,
            pen.spell(shorten(item.point.name or item.point.label, MAX_NAME)),
            amount(item.point.x, chart.x.unit),
            amount(item.point.y, chart.y.unit) if chart.y.shown else "",
            pen.spell(item.point.group),
            f"(under {item.under})" if item.under else "",
        ]
        for item in listed
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[1] = min(widths[1], max(8, pen.width - sum(widths) + widths[1] - 10))
    texts = [[_aligned(row, widths, pen)] for row in rows]
    if any(len(line) > pen.width for (line,) in texts):
        # a number cut in half is a wrong number
        texts = [
            [
                f"{row[0]}  {pen.spell(shorten(row[1], pen.width - 3))}",
                *("   " + line for line in pen.lines(", ".join(filter(None, row[2:])), pen.width - 3)),
            ]
            for row in rows
        ]
    codes = [pen.group_code(item.point.group) for item in listed]
    return [pen.paint(line, code) for lines, code in zip(texts, codes, strict=True) for line in lines]


def _aligned(row: list[str], widths: list[int], pen: Pen) -> str:
    letter, name, x, y, group, under = row
    name = pen.spell(shorten(name, widths[1])).ljust(widths[1])
    return "  ".join([letter, name, x.rjust(widths[2]), y.rjust(widths[3]), group.ljust(widths[4]), under]).rstrip()
