"""Draws any chart as text: log axes, roofs, ridge, region captions, points as letters with a list below.

Unicode draws lines in braille dots (two by four to a cell), plain ASCII in slashes and dashes; colour only when asked.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from itertools import pairwise

from ..chart import Chart, Picture, Point
from .labels import amount, position, shorten, text, ticks, wrap

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LEAST_WIDTH, LEAST_HEIGHT = 40, 8
# 16-colour codes, so that the terminal's own theme decides how they look
CODES = {"roof": "1", "ridge": "35", "caption": "2", "axis": "2", "title": "1", "muted": "2"}
GROUP_CODES = ("34", "31", "32", "35", "33", "36", "37")
PLAIN = str.maketrans({"³": "^3", "²": "^2", "→": ">", "×": "x", "·": "-", "…": "~", "µ": "u", "μ": "u"})


class _Canvas:
    """Cells of one character each, with an optional colour; braille dots are gathered before they become characters."""

    def __init__(self, width: int, height: int, braille: bool) -> None:
        self.width, self.height, self.braille = width, height, braille
        self.cells = [[" "] * width for _ in range(height)]
        self.codes = [[""] * width for _ in range(height)]
        self.dots = [[0] * width for _ in range(height)]

    def put(self, column: int, row: int, words: str, code: str = "", over: bool = True) -> None:
        for offset, letter in enumerate(words):
            x = column + offset
            if 0 <= x < self.width and 0 <= row < self.height and (over or self.cells[row][x] == " "):
                self.cells[row][x], self.codes[row][x] = letter, code

    def free(self, column: int, row: int, length: int) -> bool:
        return (
            0 <= row < self.height
            and column >= 0
            and column + length <= self.width
            and all(self.cells[row][x] == " " and not self.dots[row][x] for x in range(column, column + length))
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], code: str, dotted: bool = False) -> None:
        """From one place to another in cells, row 0 on top; what lies outside is left out."""
        steps = max(2, int(4 * max(abs(end[0] - start[0]) * 2, abs(end[1] - start[1]) * 4)))
        slope = abs(end[1] - start[1]) * 2 / max(abs(end[0] - start[0]), 1e-9)
        upward = (end[1] - start[1]) * (end[0] - start[0]) < 0
        letter = "-" if slope < 0.35 else "|" if slope > 8 else "/" if upward else "\\"
        for step in range(steps + 1):
            x, y = (start[axis] + (end[axis] - start[axis]) * step / steps for axis in (0, 1))
            column, row = math.floor(x), math.floor(y)
            if not (0 <= column < self.width and 0 <= row < self.height):
                continue
            if self.braille:
                across, down = int((x - column) * 2), int((y - row) * 4)
                if dotted and down % 2:
                    continue
                self.dots[row][column] |= ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))[min(across, 1)][
                    min(down, 3)
                ]
                self.codes[row][column] = self.codes[row][column] or code
            elif self.cells[row][column] in " .:" and not (dotted and self.cells[row][column] != " "):
                self.cells[row][column], self.codes[row][column] = (":" if dotted else letter), code

    def lines(self, paint: Callable[[str, str], str]) -> list[str]:
        found = []
        for row in range(self.height):
            words = ""
            for column in range(self.width):
                letter = self.cells[row][column]
                if letter == " " and self.dots[row][column]:
                    letter = chr(0x2800 + self.dots[row][column])
                words += paint(letter, self.codes[row][column]) if letter != " " else letter
            found.append(words.rstrip())
        return found


def draw(picture: Picture, width: int = 80, height: int = 22, ascii: bool = False, colour: bool = False) -> str:
    """The picture as lines of text no wider than `width`; `height` is that of the plot itself.

    Colour stays off for a user who has set NO_COLOR, whoever asks for it.
    """
    width, height = max(LEAST_WIDTH, width), max(LEAST_HEIGHT, height)
    colour = colour and not os.environ.get("NO_COLOR")

    def paint(words: str, code: str) -> str:
        return f"\x1b[{code}m{words}\x1b[0m" if colour and code and words else words

    parts: list[str] = []
    if len(picture.charts) > 1 or picture.charts[0] is not picture:
        parts += [paint(line, CODES["title"]) for line in _wrapped(picture.title, width, ascii)]
        parts += [paint(line, CODES["muted"]) for line in _wrapped(picture.subtitle, width, ascii)]
        parts.append("")
    for chart in picture.charts:
        parts += _chart(chart, picture.groups(), width, height, ascii, paint)
        parts.append("")
    if picture.charts[0] is not picture:
        parts += [paint(line, CODES["muted"]) for note in picture.notes for line in _wrapped(note, width, ascii)]
    return "\n".join(parts).rstrip() + "\n"


def _say(words: str, ascii: bool) -> str:
    return words.translate(PLAIN).encode("ascii", "replace").decode() if ascii else words


def _wrapped(words: str, width: int, ascii: bool) -> list[str]:
    said = _say(words, ascii)
    return [line[:width] for line in wrap(said, width, len)] if said else []


def _chart(
    chart: Chart, groups: list[str], width: int, height: int, ascii: bool, paint: Callable[[str, str], str]
) -> list[str]:
    head = [paint(line, CODES["title"]) for line in _wrapped(chart.title, width, ascii)]
    head += [paint(line, CODES["muted"]) for line in _wrapped(chart.subtitle, width, ascii)]
    if chart.look == "bars":
        body = _bars(chart, groups, width, ascii, paint)
    elif chart.look == "pyramid":
        body = _pyramid(chart, width, ascii, paint)
    else:
        body = _plane(chart, groups, width, height if chart.y.shown else 7, ascii, paint)
    notes = [paint(line, CODES["muted"]) for note in chart.notes for line in _wrapped(note, width, ascii)]
    return [*head, "", *body, *notes]


def _code(groups: list[str], group: str, otherwise: str = "") -> str:
    return GROUP_CODES[groups.index(group) % len(GROUP_CODES)] if group in groups else otherwise


def _plane(
    chart: Chart, groups: list[str], width: int, height: int, ascii: bool, paint: Callable[[str, str], str]
) -> list[str]:
    marks_y = ticks(chart.y, max(3, height // 3)) if chart.y.shown else []
    margin = max((len(label) for _, label in marks_y), default=0) + (1 if marks_y else 0)
    wide = width - margin - 1
    canvas = _Canvas(wide, height, not ascii)

    def at(x: float, y: float) -> tuple[float, float]:
        return position(chart.x, x, 0, wide - 1) + 0.5, height - 0.5 - position(chart.y, y, 0, height - 1)

    def row_of(value: float) -> int:
        return math.floor(at(chart.x.range[0], value)[1])

    for mark in chart.marks:
        code = _code(groups, mark.group, CODES["ridge"])
        if mark.axis == "x":
            x = at(mark.value, chart.y.range[0])[0]
            canvas.line((x, 0), (x, height - 0.01), code, dotted=True)
        else:
            y = at(chart.x.range[0], mark.value)[1]
            canvas.line((0, y), (wide, y), code, dotted=False)
    for line in chart.lines:
        code = _code(groups, line.group, CODES["roof"] if line.role in ("bandwidth", "peak") else CODES["axis"])
        for start, end in pairwise(line.points):
            canvas.line(at(*start), at(*end), code, dotted=line.role == "guide" and chart.y.shown)
    for arrow in chart.arrows:
        canvas.line(at(*arrow.start), at(*arrow.end), _code(groups, arrow.group))

    listed: list[tuple[str, Point, str]] = []
    taken: dict[tuple[int, int], str] = {}
    shown = [point for point in chart.points if point.label]
    for point in chart.points:
        column, row = (math.floor(value) for value in at(point.x, point.y))
        code = _code(groups, point.group, CODES["ridge"] if point.role == "ridge" else "")
        if not point.label:
            letter = ("o" if ascii else "●") if point.role == "ridge" else ("^" if ascii else "▴")
            if point.role != "floor" or (column, row) not in taken:
                canvas.put(column, row, letter, code, over=point.role == "ridge")
            continue
        letter = LETTERS[len(listed)] if len(shown) <= len(LETTERS) and len(listed) < len(LETTERS) else "*"
        under = taken.get((column, row), "")
        listed.append((letter, point, under))
        if not under:
            taken[column, row] = letter
            canvas.put(column, row, letter, code or "1")
    for region in chart.regions:
        x0, x1 = (at(value, chart.y.range[0])[0] for value in (region.x or chart.x.range))
        low, high = (row_of(value) for value in (region.y or chart.y.range))
        label = _say(region.label, ascii)
        middle = min(max(0, int((x0 + x1) / 2 - len(label) / 2)), max(0, wide - len(label)))
        rows = list(range(low, high - 1, -1))
        columns = [middle, *(max(0, int(x0) + 1 + shift) for shift in range(max(1, int(x1 - x0) - len(label))))]
        spot = next(
            ((column, row) for row in rows for column in columns if canvas.free(column, row, len(label))), (middle, low)
        )
        canvas.put(*spot, label, CODES["caption"])

    frame, corner, foot = ("|", "+", "-") if ascii else ("│", "└", "─")
    names = {row_of(value): label for value, label in marks_y}
    lines = []
    if chart.y.shown:
        lines += [paint(words, CODES["axis"]) for words in _wrapped(chart.y.title, width, ascii)]
    for row, words in enumerate(canvas.lines(paint)):
        lines.append(
            paint(names.get(row, "").rjust(margin - 1) + (" " if margin else ""), CODES["axis"])
            + paint(frame if chart.y.shown else " ", CODES["axis"])
            + words
        )
    if not chart.y.shown:
        corner = foot
    lines.append(" " * margin + paint(corner + foot * wide, CODES["axis"]))
    scale = [" "] * (width + 12)
    last = -2
    for value, label in ticks(chart.x, max(3, wide // 8)):
        begin = margin + 1 + math.floor(at(value, chart.y.range[0])[0]) - len(label) // 2
        begin = max(0, min(begin, width - len(label)))
        if begin > last + 1:
            scale[begin : begin + len(label)] = list(label)
            last = begin + len(label) - 1
    lines.append(paint("".join(scale[:width]).rstrip(), CODES["axis"]))
    lines += [paint(words.center(width).rstrip(), CODES["axis"]) for words in _wrapped(chart.x.title, width, ascii)]
    lines.append("")
    return lines + _list(chart, groups, listed, width, ascii, paint)


def _list(
    chart: Chart,
    groups: list[str],
    listed: list[tuple[str, Point, str]],
    width: int,
    ascii: bool,
    paint: Callable[[str, str], str],
) -> list[str]:
    """Roofs, marks and points in words."""
    lines = []
    roofs = [line.label for line in chart.lines if line.role in ("bandwidth", "peak") and line.label]
    if roofs:
        lines += [paint(line, CODES["roof"]) for line in _wrapped("roofs: " + "; ".join(roofs), width, ascii)]
    for mark in chart.marks:
        if mark.label:
            lines += [
                paint(line, _code(groups, mark.group, CODES["ridge"])) for line in _wrapped(mark.label, width, ascii)
            ]
    bare = {point.group for _, point, _ in listed}
    for group in groups:
        # points name their group beside them, lines have only this place
        if group not in bare and any(line.group == group and line.role == "series" for line in chart.lines):
            lines.append(paint(_say(f"line: {group}", ascii), _code(groups, group)))
    cells = []
    for letter, point, under in listed:
        where = amount(point.x, chart.x.unit) if chart.x.unit == "FLOP/byte" else text(point.x, chart.x.unit)
        high = amount(point.y, chart.y.unit) if chart.y.unit == "FLOP/byte" else text(point.y, chart.y.unit)
        cells.append(
            [
                letter,
                _say(shorten(point.name or point.label, 40), ascii),
                where,
                high if chart.y.shown else "",
                _say(point.group, ascii),
                f"(under {under})" if under else "",
                point.group,
            ]
        )
    if cells:
        widths = [max(len(cell[column]) for cell in cells) for column in range(6)]
        widths[1] = min(widths[1], max(8, width - sum(widths) + widths[1] - 10))
        rows = []
        for cell in cells:
            name = _say(shorten(cell[1], widths[1]), ascii)
            row = "  ".join(
                [
                    cell[0],
                    name.ljust(widths[1]),
                    cell[2].rjust(widths[2]),
                    cell[3].rjust(widths[3]),
                    cell[4].ljust(widths[4]),
                    cell[5],
                ]
            ).rstrip()
            rows.append([row])
        if any(len(row) > width for (row,) in rows):
            # a number cut in half is a wrong number: on a narrow terminal the figures go under their name
            rows = [
                [
                    f"{cell[0]}  {_say(shorten(cell[1], width - 3), ascii)}",
                    *("   " + line for line in _wrapped(", ".join(filter(None, cell[2:6])), width - 3, ascii)),
                ]
                for cell in cells
            ]
        lines += [paint(line, _code(groups, cell[6])) for cell, row in zip(cells, rows, strict=True) for line in row]
    return lines


def _bars(chart: Chart, groups: list[str], width: int, ascii: bool, paint: Callable[[str, str], str]) -> list[str]:
    labels = [_say(shorten(bar.label, 24), ascii) for bar in chart.bars]
    texts = [_say(bar.text, ascii) for bar in chart.bars]
    margin = max(len(label) for label in labels) + 1
    beside = width - margin - max(len(words) for words in texts) - 2
    # on a narrow terminal the figures go under their bar
    room = beside if beside >= 8 else width - margin - 1
    lines = []
    before = None
    for bar, label, words in zip(chart.bars, labels, texts, strict=True):
        start = position(chart.x, chart.x.range[0] if bar.start is None else bar.start, 0, room)
        end = position(chart.x, bar.value, 0, room)
        fill = (
            {"loss": "-", "unexplained": "?"}.get(bar.role, "#")
            if ascii
            else {"loss": "▒", "unexplained": "░"}.get(bar.role, "█")
        )
        length = max(1, round(end) - round(start))
        body = " " * round(start) + paint(fill * length, _code(groups, bar.group, "34"))
        row = (label if label != before else "").rjust(margin - 1) + " " + body
        lines += [f"{row} {words}"] if beside >= 8 else [row, *("  " + line for line in wrap(words, width - 2, len))]
        before = label
    several = [group for group in groups if any(bar.group == group for bar in chart.bars)]
    if len(several) > 1:
        lines += [
            "",
            " ".join(
                paint(("#" if ascii else "█") + " " + _say(group, ascii), _code(groups, group)) for group in several
            ),
        ]
    return [*lines, ""]


def _pyramid(chart: Chart, width: int, ascii: bool, paint: Callable[[str, str], str]) -> list[str]:
    texts = [_say(bar.text, ascii) for bar in chart.bars]
    widest = max(16, min(40, width - max(len(words) for words in texts) - 2))
    least = max(len(bar.label) for bar in chart.bars) + 2
    lines = []
    for index, (bar, words) in enumerate(zip(chart.bars, texts, strict=True)):
        share = index / (len(chart.bars) - 1) if len(chart.bars) > 1 else 1.0
        wide = max(least, round(least + (widest - least) * share))
        step = "[" + _say(bar.label, ascii).center(wide - 2) + "]"
        beside = paint(step, GROUP_CODES[index % len(GROUP_CODES)])
        pad = max(0, (max(widest, least) - wide) // 2)
        rest = max(widest, least) - wide - pad
        if max(widest, least) + 1 + len(words) <= width:
            lines.append(" " * pad + beside + " " * rest + " " + words)
        else:
            lines += [" " * pad + beside, *("  " + line for line in wrap(words, width - 2, len))]
    return [*lines, ""]
