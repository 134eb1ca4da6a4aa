"""Draws a chart with matplotlib: .svg, .png and .pdf; text stays text, elements carry ids, the same chart gives the same file.

Everything is arranged before anything is drawn: legend and notes go below the plot, and the page grows downwards, so
nothing overlaps or is cut off.
"""

from __future__ import annotations

import html
import io
import math
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ..chart import Chart, Picture
from .arrange import BODY, BOLD, COLUMN, EDGE, HEAD, SMALL, TITLE, WIDTH, Entry, Measure, arrange, gid_of, legend
from .labels import text, wrap
from .labels import theme as colours_of
from .mpl_page import FONT, Page, draw_bars, draw_plane, draw_pyramid, measurer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")

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


def _library() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise InputError(
            "drawing .svg, .png and .pdf needs matplotlib: pip install 'ridgeline[plot]' (the terminal, .json, .csv and .md need nothing)"
        ) from error
    return matplotlib


def _with_tips(picture: Picture, source: str, prefix: str) -> str:
    """Whole names and values as <title>, which browsers show when the pointer rests on a point."""
    for number, chart in enumerate(picture.charts):
        for index, point in enumerate(chart.points):
            tip = (
                f"{point.name or point.label}: {text(point.x, chart.x.unit)} {chart.x.unit}, {text(point.y, chart.y.unit)}"
                if chart.y.shown
                else f"{point.name or point.label}: {text(point.x, chart.x.unit)}"
            )
            identity = f'<g id="{prefix}{gid_of(number, f"point-{point.role}", index)}">'
            source = source.replace(identity, f"{identity}\n<title>{html.escape(tip)}</title>", 1)
    source = re.sub(r"<metadata>.*?</metadata>\s*", "", source, flags=re.S)
    # a reader without the font gets one that runs no wider
    source = source.replace(f"font-family: '{FONT}'", f"font-family: '{FONT}', Verdana, Arial, sans-serif")
    return source.replace("<svg ", f'<svg role="img" aria-label="{html.escape(picture.title)}" ', 1)


def draw(picture: Picture, theme: str = "light", prefix: str = "") -> Figure:
    """A matplotlib figure of the picture. Colours and ids are set on every element, no style of the caller leaks in."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    palette, groups, measure = colours_of(theme), picture.groups(), measurer()
    charts = picture.charts
    alone = len(charts) == 1 and isinstance(picture, Chart)
    column = WIDTH if alone else COLUMN
    arranged = [arrange(chart, column, palette, groups, number, measure) for number, chart in enumerate(charts)]
    tallest = max(each.height for each in arranged)
    total = column * len(charts)

    entries: list[Entry] = []
    for each in arranged:
        seen = {(entry.text, entry.colour) for entry in entries}
        entries += [entry for entry in legend(each, palette, groups) if (entry.text, entry.colour) not in seen]
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
    page = Page(figure, total, height, palette, prefix)

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
                gid=gid_of(number, "head"),
                weight="bold",
            )
        if each.chart.look == "bars":
            draw_bars(page, each, offset + each.left, base, groups, number)
        elif each.chart.look == "pyramid":
            draw_pyramid(page, each, offset + each.left, base, number, measure)
        else:
            draw_plane(page, each, offset + each.left, base, groups, number)

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
