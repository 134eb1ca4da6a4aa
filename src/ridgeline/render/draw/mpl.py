"""Draws a chart with matplotlib: .svg, .png and .pdf; text stays text, elements carry ids, the same chart gives the same file."""

from __future__ import annotations

import html
import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import InputError
from ..chart import Chart, Picture
from .labels import tick_text
from .legend import Entry, entries_of
from .mpl_axes import add_labels, draw_axes, plot_height
from .mpl_page import FONT, Page, measurer
from .plane_labels import PlaneLabels
from .themes import BODY_SIZE, HEAD_SIZE, SMALL_SIZE, TITLE_SIZE, ChartStyle, gid_of
from .themes import theme as palette_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png", ".pdf")
PAGE_WIDTH, PANEL_WIDTH = 760.0, 560.0  # points: of a chart alone, of each chart beside others
PNG_DPI = 144

_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ridgeline",
    "pdf.fonttype": 42,
    "path.simplify": False,
    "font.family": FONT,
    "text.parse_math": False,
}
# without these, the same chart gives the same bytes
_METADATA = {
    "svg": ("Date", "Creator", "Format", "Type"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
# matplotlib keeps its settings in one place for the whole process, so drawings take turns
_TURN = threading.RLock()


@contextmanager
def _settings(salt: str = "") -> Iterator[None]:
    """matplotlib's defaults with ours over them: no style of the caller shows in a picture."""
    try:
        from matplotlib import style
    except ImportError as error:
        raise InputError(
            "drawing .svg, .png and .pdf needs matplotlib: pip install 'ridgeline[plot]' (the terminal, .json, .csv and .md need nothing)"
        ) from error
    with _TURN, style.context(["default", _SETTINGS, {"svg.hashsalt": f"ridgeline{salt}"}]):
        yield


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """Write the picture to a file; the suffix says which format."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    content = svg(picture, theme).encode() if suffix == "svg" else _saved(picture, suffix, theme)
    Path(path).write_bytes(content)


def svg(picture: Picture, theme: str = "light", prefix: str = "") -> str:
    """The picture as SVG text; `prefix` keeps ids apart when several pictures are on one page."""
    return _with_tips(picture, _saved(picture, "svg", theme, prefix).decode(), prefix)


def _saved(picture: Picture, suffix: str, theme: str, prefix: str = "") -> bytes:
    stream = io.BytesIO()
    with _settings(prefix):
        figure = draw(picture, theme, prefix)
        dpi = PNG_DPI if suffix == "png" else 72
        figure.savefig(stream, format=suffix, dpi=dpi, metadata=dict.fromkeys(_METADATA[suffix]))
    return stream.getvalue()


def _with_tips(picture: Picture, source: str, prefix: str) -> str:
    """Full names and values as <title>, which browsers show when the pointer rests on a point."""
    for number, chart in enumerate(picture.charts):
        for index, point in enumerate(chart.points):
            tip = f"{point.name or point.label}: {tick_text(point.x, chart.x.unit)}"
            if chart.y.shown:
                tip += f" {chart.x.unit}, {tick_text(point.y, chart.y.unit)}"
            identity = f'<g id="{prefix}{gid_of(number, f"point-{point.role}", index)}">'
            source = source.replace(identity, f"{identity}\n<title>{html.escape(tip)}</title>", 1)
    source = re.sub(r"<metadata>.*?</metadata>\s*", "", source, flags=re.S)
    # a reader without the font gets one that runs no wider
    source = source.replace(f"font-family: '{FONT}'", f"font-family: '{FONT}', Verdana, Arial, sans-serif")
    return source.replace("<svg ", f'<svg role="img" aria-label="{html.escape(picture.title)}" ', 1)


def draw(picture: Picture, theme: str = "light", prefix: str = "") -> Figure:
    """A matplotlib figure of the picture, laid out for good: the axes get their size first, then labels their places."""
    with _settings(prefix):
        charts, alone, measure = picture.charts, isinstance(picture, Chart), measurer()
        style = ChartStyle(palette_of(theme), picture.groups(), measure, prefix=prefix, alone=alone)
        styles = [replace(style, number=number) for number in range(len(charts))]
        page = Page(PAGE_WIDTH if alone else PANEL_WIDTH * len(charts), style.palette, prefix, measure)
        page.write([picture.title], TITLE_SIZE, style.palette["ink"], "title", "bold", top=True)
        page.write([picture.subtitle], BODY_SIZE, style.palette["muted"], "subtitle", top=True)

        panels = list(zip(page.figure.subplots(1, len(charts), squeeze=False)[0], charts, styles, strict=True))
        height = max(plot_height(chart) for chart in charts)
        for axes, chart, chart_style in panels:
            draw_axes(axes, chart, chart_style, height)
            if not alone:
                gid = chart_style.gid("head")
                axes.set_title(
                    chart.title, fontsize=HEAD_SIZE, fontweight="bold", color=style.palette["ink"], loc="left", gid=gid
                )
        page.lay_out(height)
        names = [names for panel in panels if (names := add_labels(*panel)) is not None]
        _write_below(page, picture, style, names)
        return page.figure


def _write_below(page: Page, picture: Picture, style: ChartStyle, names: list[PlaneLabels]) -> None:
    """Legend, list of numbered names and notes; the lowest block goes first."""
    numbered = [line for each in names for line in each.numbered]
    dropped = sum(each.dropped for each in names)
    notes = list(dict.fromkeys([*picture.notes, *(note for chart in picture.charts for note in chart.notes)]))
    if numbered:
        notes.append("numbers stand for names listed above, where names found no room")
    if dropped:
        labels, them = ("label", "it") if dropped == 1 else ("labels", "them")
        notes.append(f"{dropped} {labels} found no room; the table behind the chart has {them}")
    page.write(notes, SMALL_SIZE, style.palette["muted"], "notes")
    page.add_legend([Entry(line, "none") for line in numbered], SMALL_SIZE, 4.0, "numbered")
    entries = [entry for chart in picture.charts for entry in entries_of(chart, style)]
    entries += [entry for each in names for entry in each.legend_entries]
    by_name: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        by_name.setdefault((entry.text, entry.colour), entry)
    page.add_legend(list(by_name.values()), BODY_SIZE, 6.5, "legend")
