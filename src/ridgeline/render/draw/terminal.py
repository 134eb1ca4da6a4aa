"""Draws any chart as text: axes in braille dots or plain ASCII, bars, pyramids; colour only when asked."""

from __future__ import annotations

import os

from ..chart import Chart, Picture
from .canvas import CODES, GROUP_CODES, Pen
from .labels import position, shorten, wrap
from .terminal_plane import draw_plane

MIN_WIDTH, MIN_HEIGHT, SCALE_HEIGHT = 40, 8, 7
MAX_BAR_LABEL, MIN_BAR_ROOM = 24, 8
MIN_PYRAMID_WIDTH, MAX_PYRAMID_WIDTH = 16, 40


def draw(picture: Picture, width: int = 80, height: int = 22, ascii: bool = False, colour: bool = False) -> str:
    """The picture as lines of text no wider than `width`; `height` is that of the plot itself.

    Colour stays off for a user who has set NO_COLOR, whoever asks for it.
    """
    colour = colour and not os.environ.get("NO_COLOR")
    pen = Pen(max(MIN_WIDTH, width), picture.groups(), ascii, colour)
    lines: list[str] = []
    panel = not isinstance(picture, Chart)
    if panel:
        lines += [*_heading(picture, pen), ""]
    for chart in picture.charts:
        lines += [*_chart(chart, pen, max(MIN_HEIGHT, height)), ""]
    if panel:
        lines += _notes(picture, pen)
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
    else:
        body = draw_plane(chart, pen, height if chart.y.shown else SCALE_HEIGHT)
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
    for index, (bar, text) in enumerate(zip(chart.bars, texts, strict=True)):
        share = index / (len(chart.bars) - 1) if len(chart.bars) > 1 else 1.0
        width = max(narrowest, round(narrowest + (widest - narrowest) * share))
        step = pen.paint(f"[{pen.spell(bar.label).center(width - 2)}]", GROUP_CODES[index % len(GROUP_CODES)])
        left = (full - width) // 2
        if full + 1 + len(text) <= pen.width:
            lines.append(" " * left + step + " " * (full - width - left) + " " + text)
        else:
            lines += [" " * left + step, *_indented(text, pen)]
    return [*lines, ""]


def _indented(text: str, pen: Pen) -> list[str]:
    return ["  " + line for line in wrap(text, pen.width - 2, len)]
