"""Draws a chart with matplotlib: .svg, .png and .pdf; text stays text, elements carry ids, the same chart gives the same file.

Everything is arranged in points of 1/72 inch before anything is drawn: margins follow from the texts that stand in
them, legend and notes go below the plot, and the page grows downwards, so nothing overlaps or is cut off.
"""

from __future__ import annotations

import html
import io
import math
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .chart import LOG, Chart, Line, Panel, Picture, Point
from .layout import (
    COLOURS,
    Box,
    Disc,
    Placed,
    Segment,
    Wanted,
    ladder,
    place,
    position,
    shorten,
    spread,
    text,
    ticks,
    wrap,
)
from .layout import theme as colours_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")

TITLE, HEAD, BODY, SMALL = 14.0, 11.0, 9.5, 9.0
WIDTH, COLUMN, PLOT, EDGE = 760.0, 560.0, 380.0, 18.0
FONT = "DejaVu Sans"
BOLD = 1.16  # how much wider bold letters run
_RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ridgeline",
    "pdf.fonttype": 42,
    "path.simplify": False,
    "font.family": FONT,
    "axes.unicode_minus": False,
    "text.usetex": False,
}
# matplotlib keeps its settings in one place for the whole process, so drawings take turns
_TURN = threading.Lock()

LOOKS: dict[str, dict[str, Any]] = {
    "bandwidth": {"linewidth": 2.2}, "peak": {"linewidth": 2.2}, "series": {"linewidth": 2.0}, "guide": {"linewidth": 0.9, "alpha": 0.75},
    "target": {"linewidth": 1.2, "linestyle": (0, (4, 2))},
}  # fmt: skip
RADIUS = {"expected": 4.6, "overhead": 4.8, "floor": 3.4, "observed": 5.0, "target": 5.0, "ridge": 4.4, "value": 4.4}
MARKER = {"expected": "o", "overhead": "s", "floor": "_", "observed": "D", "target": "o", "ridge": "o", "value": "o"}


def _library() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            "drawing .svg, .png and .pdf needs matplotlib: pip install 'ridgeline[plot]' (the terminal, .json, .csv and .md need nothing)"
        ) from error
    return matplotlib


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """Write the picture to a file; the suffix says which format."""
    suffix = Path(path).suffix.lower()
    if suffix == ".svg":
        Path(path).write_text(svg(picture, theme), encoding="utf-8")
        return
    matplotlib = _library()
    with _TURN, matplotlib.rc_context(_RC):
        figure = draw(picture, theme)
        if suffix == ".png":
            figure.savefig(
                str(path), format="png", dpi=144, metadata={"Software": None}, facecolor=figure.get_facecolor()
            )
        else:
            figure.savefig(
                str(path),
                format="pdf",
                metadata={"CreationDate": None, "Creator": None, "Producer": None},
                facecolor=figure.get_facecolor(),
            )


def svg(picture: Picture, theme: str = "light", prefix: str = "") -> str:
    """The picture as SVG text; `prefix` keeps ids apart when several stand on one page."""
    matplotlib = _library()
    stream = io.StringIO()
    with _TURN, matplotlib.rc_context({**_RC, "svg.hashsalt": f"ridgeline{prefix}"}):
        draw(picture, theme, prefix).savefig(
            stream,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
            facecolor=colours_of(theme)["background"],
        )
    return _with_tips(picture, stream.getvalue(), prefix)


def _with_tips(picture: Picture, source: str, prefix: str) -> str:
    """Whole names and values as <title>, which browsers show when the pointer rests on a point."""
    for number, chart in enumerate(picture.charts):
        for index, point in enumerate(chart.points):
            tip = (
                f"{point.name or point.label}: {text(point.x, chart.x.unit)} {chart.x.unit}, {text(point.y, chart.y.unit)}"
                if chart.y.shown
                else f"{point.name or point.label}: {text(point.x, chart.x.unit)}"
            )
            identity = f'<g id="{prefix}{_gid(number, f"point-{point.role}", index)}">'
            source = source.replace(identity, f"{identity}\n<title>{html.escape(tip)}</title>", 1)
    source = re.sub(r"<metadata>.*?</metadata>\s*", "", source, flags=re.S)
    # a reader without the font gets one that runs no wider
    source = source.replace(f"font-family: '{FONT}'", f"font-family: '{FONT}', Verdana, Arial, sans-serif")
    return source.replace("<svg ", f'<svg role="img" aria-label="{html.escape(picture.title)}" ', 1)


def _gid(number: int, kind: str, index: int | str = "") -> str:
    return f"c{number}-{kind}" + (f"-{index}" if index != "" else "")


# -- arranging --------------------------------------------------------------------------------------------

Measure = Callable[[str, float], float]


def _measurer() -> Measure:
    """Width of a text in points; measured large, so that rounding to pixels does not matter."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    canvas = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=720))
    renderer = canvas.get_renderer()
    known: dict[tuple[str, float], float] = {}

    def measure(words: str, size: float) -> float:
        key = (words, size)
        if key not in known:
            known[key] = (
                renderer.get_text_width_height_descent(words, FontProperties(family=FONT, size=size), False)[0] / 10
            )
        return known[key]

    return measure


@dataclass
class Label:
    text: str
    box: Box
    leader: Segment | None
    colour: str
    gid: str
    size: float = SMALL
    weight: str = "normal"


@dataclass
class Slanted:
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
    hollow: bool = False


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


def _colour(palette: dict[str, str], groups: list[str], group: str, otherwise: str = "ink") -> str:
    return palette[f"c{groups.index(group) % COLOURS}"] if group in groups else palette[otherwise]


def _point_colour(palette: dict[str, str], groups: list[str], point: Point) -> str:
    if point.role == "ridge" and not point.group:
        return palette["ridge"]
    return _colour(palette, groups, point.group, "c0")


def _clip(line: Line, chart: Chart, width: float, height: float) -> list[Segment]:
    spots = [(position(chart.x, x, 0, width), position(chart.y, y, 0, height)) for x, y in line.points]
    return list(pairwise(spots))


def _arrange(
    chart: Chart,
    column: float,
    height: float | None,
    palette: dict[str, str],
    groups: list[str],
    number: int,
    measure: Measure,
) -> Arranged:
    if chart.look == "bars":
        return _arrange_bars(chart, column, palette, groups, measure)
    if chart.look == "pyramid":
        return Arranged(chart, column - 2 * EDGE, 46.0 * len(chart.bars), EDGE, EDGE)
    tall = height or (PLOT if chart.y.shown else 150.0)
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
            Label(line.label, box, leader, _colour(palette, groups, line.group), _gid(number, "line-label", index))
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
            colour = _colour(palette, groups, line.group)
            found = _along(line, at, frame, taken, discs, segments, measure)
            if found is None:
                plane.entries.append(Entry(line.label, colour, dash="-"))
            else:
                slant, boxes = found
                plane.slanted.append(Slanted(line.label, *slant, colour, _gid(number, "line-label", index)))
                taken += boxes

    texts, wanted, whose = [], [], []
    for index, point in enumerate(chart.points):
        if point.label:
            texts.append(point.label)
            wanted.append((*at(point.x, point.y), RADIUS.get(point.role, 4.0)))
            whose.append(
                (_gid(number, "label", index), _point_colour(palette, groups, point), point.name or point.label)
            )
    for index, arrow in enumerate(chart.arrows):
        if arrow.label:
            (ax, ay), (bx, by) = at(*arrow.start), at(*arrow.end)
            texts.append(arrow.label)
            wanted.append(((ax + bx) / 2, (ay + by) / 2, 3.0))
            whose.append((_gid(number, "arrow-label", index), _colour(palette, groups, arrow.group), arrow.label))
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
    region: Any,
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
        Label(region.label, box, None, palette["muted"], _gid(number, "caption", region.role), size, "bold")
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


def _arrange_bars(
    chart: Chart, column: float, palette: dict[str, str], groups: list[str], measure: Measure
) -> Arranged:
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


def _legend(plane: Arranged, palette: dict[str, str], groups: list[str]) -> list[Entry]:
    """Groups, marks and what else the picture does not say by itself."""
    chart = plane.chart
    entries = []
    for group in chart.groups():
        points = [point for point in chart.points if point.group == group and point.role not in ("floor", "ridge")]
        lines = [line for line in chart.lines if line.group == group and line.role in ("series", "bandwidth", "peak")]
        ridges = [point for point in chart.points if point.group == group and point.role == "ridge"]
        colour = _colour(palette, groups, group)
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
                    _mark_colour(palette, groups, mark),
                    "o" if mark.role == "ridge" and mark.axis == "x" else "",
                    "--" if mark.role == "ridge" else ":",
                )
            )
    return entries + plane.entries


def _mark_colour(palette: dict[str, str], groups: list[str], mark: Any) -> str:
    return _colour(palette, groups, mark.group, "ridge" if mark.role == "ridge" else "muted")


# -- drawing ----------------------------------------------------------------------------------------------


def draw(picture: Picture, theme: str = "light", prefix: str = "") -> Figure:
    """A matplotlib figure of the picture. Colours and ids are set on every element, no style of the caller leaks in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    palette, groups, measure = colours_of(theme), picture.groups(), _measurer()
    charts = picture.charts
    alone = len(charts) == 1 and isinstance(picture, Chart)
    column = WIDTH if alone else COLUMN
    arranged = [_arrange(chart, column, None, palette, groups, number, measure) for number, chart in enumerate(charts)]
    tallest = max(each.height for each in arranged)
    total = column * len(charts)

    entries: list[Entry] = []
    for each in arranged:
        seen = {(entry.text, entry.colour) for entry in entries}
        entries += [entry for entry in _legend(each, palette, groups) if (entry.text, entry.colour) not in seen]
    numbered = [line for each in arranged for line in sorted(each.numbered, key=lambda line: int(line.split()[0]))]
    notes = list(
        dict.fromkeys([*picture.notes, *(note for each in arranged if not alone for note in each.chart.notes)])
    )
    dropped = sum(each.dropped for each in arranged)
    if numbered:
        notes.append("numbers stand for names listed above, where names found no room")
    if dropped:
        notes.append(
            f"{dropped} label{'s' if dropped > 1 else ''} found no room; the table behind the chart has {'them' if dropped > 1 else 'it'}"
        )
    room = total - 2 * EDGE
    title_lines = wrap(picture.title, room, lambda words: measure(words, TITLE) * BOLD)
    sub_lines = wrap(picture.subtitle, room, lambda words: measure(words, BODY))
    note_lines = [line for note in notes for line in wrap(note, room, lambda words: measure(words, SMALL))]
    legend_rows = _flow([(entry, 24 + measure(entry.text, BODY) + 16) for entry in entries], room)
    number_rows = _columns(numbered, room, measure)

    has_axis = any(each.chart.x.shown for each in arranged)
    top = EDGE + 19.0 * len(title_lines) + 14.0 * len(sub_lines) + 12.0 + (0.0 if alone else 22.0)
    below = (
        (46.0 if has_axis else 10.0)
        + 18.0 * len(legend_rows)
        + (4.0 if legend_rows else 0.0)
        + 14.0 * len(number_rows)
        + (6.0 if number_rows else 0.0)
        + 13.5 * len(note_lines)
        + (4.0 if note_lines else 0.0)
        + EDGE
        - 6
    )
    height = top + tallest + below

    figure = Figure(figsize=(total / 72, height / 72), dpi=72, facecolor=palette["background"])
    FigureCanvasAgg(figure)
    page = _Page(figure, total, height, palette, prefix)

    y = height - EDGE
    for number, line in enumerate(title_lines):
        page.text(EDGE, y - 12, line, TITLE, palette["ink"], gid=f"title-{number}", weight="bold")
        y -= 19
    for number, line in enumerate(sub_lines):
        page.text(EDGE, y - 9, line, BODY, palette["muted"], gid=f"subtitle-{number}")
        y -= 14
    bottom = below
    for number, each in enumerate(arranged):
        offset = column * number
        base = bottom + tallest - each.height
        if not alone:
            page.text(
                offset + each.left,
                base + each.height + 9,
                each.chart.title,
                HEAD,
                palette["ink"],
                gid=_gid(number, "head"),
                weight="bold",
            )
        if each.chart.look == "bars":
            _draw_bars(page, each, offset + each.left, base, groups, number)
        elif each.chart.look == "pyramid":
            _draw_pyramid(page, each, offset + each.left, base, number, measure)
        else:
            _draw_plane(page, each, offset + each.left, base, groups, number)

    y = bottom - (46.0 if has_axis else 10.0)
    for row in legend_rows:
        x = EDGE
        for entry, wide in row:
            page.swatch(x, y - 6, entry)
            page.text(
                x + 24, y - 6, entry.text, BODY, palette["ink"], gid=f"legend-{entries.index(entry)}", va="center"
            )
            x += wide
        y -= 18
    y -= 4 if legend_rows else 0
    for row_number, cells in enumerate(number_rows):
        for x, line in cells:
            page.text(EDGE + x, y - 8, line, SMALL, palette["ink"], gid=f"numbered-{row_number}-{x:.0f}")
        y -= 14
    y -= 6 if number_rows else 0
    for number, line in enumerate(note_lines):
        page.text(EDGE, y - 8, line, SMALL, palette["muted"], gid=f"note-{number}")
        y -= 13.5
    return figure


def _flow(items: Iterable[tuple[Entry, float]], room: float) -> list[list[tuple[Entry, float]]]:
    rows: list[list[tuple[Entry, float]]] = []
    for item in items:
        if rows and sum(wide for _, wide in rows[-1]) + item[1] <= room:
            rows[-1].append(item)
        else:
            rows.append([item])
    return rows


def _columns(lines: list[str], room: float, measure: Measure) -> list[list[tuple[float, str]]]:
    """Lines in as many equal columns as fit, read downwards."""
    if not lines:
        return []
    wide = max(measure(line, SMALL) for line in lines) + 18
    count = max(1, min(len(lines), int(room // wide)))
    deep = math.ceil(len(lines) / count)
    return [
        [(column * wide, lines[column * deep + row]) for column in range(count) if column * deep + row < len(lines)]
        for row in range(deep)
    ]


class _Page:
    """A figure addressed in points from its lower left corner."""

    def __init__(self, figure: Figure, width: float, height: float, palette: dict[str, str], prefix: str) -> None:
        self.figure, self.width, self.height, self.palette, self.prefix = figure, width, height, palette, prefix

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float,
        colour: str,
        gid: str,
        ha: str = "left",
        va: str = "baseline",
        weight: str = "normal",
        rotation: float = 0.0,
    ) -> None:
        found = self.figure.text(
            x / self.width,
            y / self.height,
            words,
            fontsize=size,
            color=colour,
            ha=ha,
            va=va,
            fontweight=weight,
            rotation=rotation,
            rotation_mode="anchor",
            parse_math=False,
        )
        found.set_gid(self.prefix + gid)

    def line(self, spots: list[tuple[float, float]], colour: str, gid: str = "", **style: Any) -> None:
        from matplotlib.lines import Line2D

        made = Line2D(
            [x / self.width for x, _ in spots],
            [y / self.height for _, y in spots],
            color=colour,
            transform=self.figure.transFigure,
            **style,
        )
        if gid:
            made.set_gid(self.prefix + gid)
        self.figure.add_artist(made)

    def swatch(self, x: float, y: float, entry: Entry) -> None:
        if entry.dash:
            self.line([(x, y), (x + 18, y)], entry.colour, linestyle=entry.dash, linewidth=1.8)
        if entry.marker:
            self.line(
                [(x + 9, y)], entry.colour, marker=entry.marker, markersize=7, linestyle="none", markeredgewidth=0
            )

    def axes(self, x: float, y: float, width: float, height: float, gid: str) -> Any:
        made = self.figure.add_axes(
            (x / self.width, y / self.height, width / self.width, height / self.height),
            facecolor=self.palette["background"],
        )
        made.set_gid(self.prefix + gid)
        for spine in made.spines.values():
            spine.set_color(self.palette["frame"])
            spine.set_linewidth(0.8)
        made.tick_params(
            colors=self.palette["frame"], labelcolor=self.palette["ink"], labelsize=SMALL, length=3, width=0.8
        )
        return made


def _set_axis(made: Any, which: str, axis: Any, marks: list[tuple[float, str]], palette: dict[str, str]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    getattr(made, f"set_{which}scale")("log" if axis.scale == LOG else "linear")
    getattr(made, f"set_{which}lim")(*axis.range)
    ruler = getattr(made, f"{which}axis")
    ruler.set_major_locator(FixedLocator([value for value, _ in marks]))
    ruler.set_major_formatter(FixedFormatter([label for _, label in marks]))
    ruler.set_minor_locator(NullLocator())
    if marks:
        ruler.grid(True, color=palette["grid"], linewidth=0.7)
    for label in ruler.get_ticklabels():
        label.set_parse_math(False)


def _draw_plane(page: _Page, plane: Arranged, left: float, base: float, groups: list[str], number: int) -> None:
    from matplotlib.patches import FancyArrowPatch

    chart, palette = plane.chart, page.palette
    made = page.axes(left, base, plane.width, plane.height, _gid(number, "axes"))
    made.set_axisbelow(True)
    _set_axis(made, "x", chart.x, plane.x_ticks, palette)
    _set_axis(made, "y", chart.y, plane.y_ticks, palette)
    if not chart.y.shown:
        for side in ("left", "right", "top"):
            made.spines[side].set_visible(False)
    page.text(
        left + plane.width / 2, base - 36, chart.x.title, BODY, palette["ink"], _gid(number, "x-title"), ha="center"
    )
    if chart.y.shown:
        page.text(
            left - plane.left + EDGE + 8,
            base + plane.height / 2,
            chart.y.title,
            BODY,
            palette["ink"],
            _gid(number, "y-title"),
            ha="center",
            rotation=90,
        )

    for region in chart.regions:
        (x0, x1), (y0, y1) = region.x or chart.x.range, region.y or chart.y.range
        if region.role in palette and x1 > x0 and y1 > y0:
            shade = made.fill_between([x0, x1], y0, y1, color=palette[region.role], linewidth=0, zorder=0.4)
            shade.set_gid(page.prefix + _gid(number, "region", region.role))
    for index, mark in enumerate(chart.marks):
        style = {
            "color": _mark_colour(palette, groups, mark),
            "linestyle": "--" if mark.role == "ridge" else ":",
            "linewidth": 1.1,
            "zorder": 2,
        }
        found = made.axvline(mark.value, **style) if mark.axis == "x" else made.axhline(mark.value, **style)
        found.set_gid(page.prefix + _gid(number, f"mark-{mark.role}", index))
    for index, line in enumerate(chart.lines):
        colour = _colour(palette, groups, line.group, "ink" if line.role in ("bandwidth", "peak") else "muted")
        look = LOOKS.get(line.role, {"linewidth": 1.2})
        drawn = made.plot(
            [x for x, _ in line.points],
            [y for _, y in line.points],
            color=colour,
            solid_capstyle="round",
            zorder=2.2 if line.role == "guide" else 3,
            **look,
        )[0]
        drawn.set_gid(page.prefix + _gid(number, f"line-{line.role}", index))
    for index, arrow in enumerate(chart.arrows):
        patch = FancyArrowPatch(
            arrow.start,
            arrow.end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=_colour(palette, groups, arrow.group),
            linewidth=1.5,
            shrinkA=4,
            shrinkB=1,
            zorder=4,
        )
        patch.set_gid(page.prefix + _gid(number, f"arrow-{arrow.role}", index))
        made.add_patch(patch)
    for index, point in enumerate(chart.points):
        colour = _point_colour(palette, groups, point)
        hollow = point.role == "target"
        size = 2 * RADIUS.get(point.role, 4.0) * (0.85 if point.role in ("observed", "overhead") else 1.0)
        edge = colour if hollow or point.role == "floor" else palette["background"]
        drawn = made.plot(
            [point.x], [point.y], marker=MARKER.get(point.role, "o"), markersize=size, linestyle="none", color=colour, markeredgecolor=edge,
            markerfacecolor=palette["background"] if hollow else colour, markeredgewidth=1.8 if hollow or point.role == "floor" else 0.7, clip_on=False, zorder=5,
        )[0]  # fmt: skip
        drawn.set_gid(page.prefix + _gid(number, f"point-{point.role}", index))
    for slant in plane.slanted:
        page.text(
            left + slant.x,
            base + slant.y,
            slant.text,
            SMALL,
            slant.colour,
            slant.gid,
            ha="center",
            va="center",
            rotation=slant.angle,
        )
    for label in plane.labels:
        if label.leader is not None:
            page.line(
                [(left + x, base + y) for x, y in label.leader], palette["frame"], label.gid + "-leader", linewidth=0.8
            )
        # bold widths are estimates, so bold texts stand in the middle of their box
        across, side = (
            ((label.box.x0 + label.box.x1) / 2, "center") if label.weight == "bold" else (label.box.x0, "left")
        )
        page.text(
            left + across,
            base + (label.box.y0 + label.box.y1) / 2,
            label.text,
            label.size,
            label.colour,
            label.gid,
            ha=side,
            va="center",
            weight=label.weight,
        )


def _draw_bars(page: _Page, bars: Arranged, left: float, base: float, groups: list[str], number: int) -> None:
    chart, palette = bars.chart, page.palette
    made = page.axes(left, base, bars.width, bars.height, _gid(number, "axes"))
    made.set_axisbelow(True)
    _set_axis(made, "x", chart.x, bars.x_ticks, palette)
    made.set_ylim(0, bars.height)
    made.set_yticks([])
    for side in ("right", "top"):
        made.spines[side].set_visible(False)
    page.text(
        left + bars.width / 2, base - 36, chart.x.title, BODY, palette["ink"], _gid(number, "x-title"), ha="center"
    )
    before = None
    for index, bar in enumerate(chart.bars):
        y = bars.height - 5 - 27 * (index + 0.5)
        colour = _colour(palette, groups, bar.group, "c0")
        start = chart.x.range[0] if bar.start is None else bar.start
        hatch = (
            {"hatch": "////", "facecolor": palette["background"], "edgecolor": colour}
            if bar.role == "unexplained"
            else {"color": colour}
        )
        for patch in made.barh(y, bar.value - start, height=17, left=start, linewidth=0.8, zorder=3, **hatch):
            patch.set_gid(page.prefix + _gid(number, "bar", index))
        if bar.label != before:
            page.text(
                left - 8,
                base + y,
                bar.label,
                BODY,
                palette["ink"],
                _gid(number, "bar-label", index),
                ha="right",
                va="center",
            )
        before = bar.label
        end = position(chart.x, bar.value, 0, bars.width)
        page.text(
            left + end + 6, base + y, bar.text, SMALL, palette["ink"], _gid(number, "bar-text", index), va="center"
        )


def _draw_pyramid(page: _Page, steps: Arranged, left: float, base: float, number: int, measure: Measure) -> None:
    """Each step is wider than the one above it; names inside, figures beside."""
    from matplotlib.patches import Rectangle

    palette, bars = page.palette, steps.chart.bars
    beside = max(measure(bar.text, BODY) for bar in bars) + 16
    widest = max(steps.width - beside, 160.0)
    narrowest = min(widest, max(measure(bar.label, BODY) for bar in bars) * BOLD + 28)
    for index, bar in enumerate(bars):
        wide = narrowest + (widest - narrowest) * (index / (len(bars) - 1) if len(bars) > 1 else 1.0)
        y = base + steps.height - 46 * (index + 1)
        patch = Rectangle(
            ((left + (widest - wide) / 2) / page.width, (y + 2) / page.height),
            wide / page.width,
            42 / page.height,
            transform=page.figure.transFigure,
            facecolor=palette[f"c{index % COLOURS}"],
            edgecolor="none",
            zorder=1,
        )
        patch.set_gid(page.prefix + _gid(number, "step", index))
        page.figure.add_artist(patch)
        page.text(
            left + widest / 2,
            y + 23,
            bar.label,
            BODY,
            palette["background"],
            _gid(number, "step-label", index),
            ha="center",
            va="center",
            weight="bold",
        )
        page.text(
            left + widest + 14, y + 23, bar.text, BODY, palette["ink"], _gid(number, "step-text", index), va="center"
        )


__all__ = ["SUFFIXES", "Panel", "draw", "render", "svg"]
