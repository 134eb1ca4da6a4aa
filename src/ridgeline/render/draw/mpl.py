"""Draws a chart with matplotlib: .svg, .png and .pdf; text stays text, elements carry ids, the same chart gives the same file.

`Page` stacks the blocks of text above and below the axes and gives the axes the rectangle between them. matplotlib's own
layouts reserve only the largest of several texts at one edge, and take most of the time of a drawing.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import InputError
from ...core.escaping import markup
from ..chart import Chart, Panel, Picture
from .labels import tick_text, wrap
from .mpl_axes import add_labels, draw_axes, height_of_equal_decades, plot_height
from .mpl_home import keep_out_of_odd_homes
from .plane_labels import HINTING, PlaneLabels
from .themes import BODY_SIZE, HEAD_SIZE, SMALL_SIZE, TITLE_SIZE, ChartStyle, Entry, Measure, entries_of, palette_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

SUFFIXES = (".svg", ".png", ".pdf")
PAGE_WIDTH, PANEL_WIDTH, GRID_WIDTH = (
    760.0,
    560.0,
    470.0,
)  # points: of a chart alone, beside others, in a grid of columns
PNG_DPI = 144
FONT = "DejaVu Sans"
MARGIN = 18.0  # at the edges of the page
BLOCK_GAP, AXES_GAP = 7.0, 7.0  # between blocks; between the axes and the blocks above and below them
ROW_GAP = 0.04  # between rows of charts, as a share of their height
HANDLE_WIDTH, HANDLE_GAP, COLUMN_GAP = 18.0, 6.0, 16.0  # of a legend
MAX_LAYOUTS = 12  # texts at the ends of bars move with the width of the axes, so the margins take several rounds

_SETTINGS = {
    "svg.fonttype": "none",
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
# matplotlib keeps its settings in one place per process, so drawings take turns
_TURN = threading.RLock()


@contextmanager
def _settings(salt: str = "") -> Iterator[None]:
    """matplotlib's defaults with ours over them: no style of the caller shows in a picture."""
    keep_out_of_odd_homes()
    try:
        from matplotlib import style
    except ImportError as error:
        raise InputError(
            "drawing .svg, .png and .pdf needs matplotlib: pip install 'ridgeline[plot]' (the terminal, .json, .csv and .md need nothing)"
        ) from error
    with _TURN, warnings.catch_warnings(), style.context(["default", _SETTINGS, {"svg.hashsalt": f"ridgeline{salt}"}]):
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # readers of SVG have other fonts
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
    """Full names and values as <title>, which browsers show when the pointer rests on a point or a bar of an icicle."""
    for number, chart in enumerate(picture.charts):
        for index, point in enumerate(chart.points):
            tip = f"{point.name or point.label}: {tick_text(point.x, chart.x.unit)}"
            if chart.y.shown:
                tip += f" {chart.x.unit}, {tick_text(point.y, chart.y.unit)}"
            identity = f'<g id="{prefix}c{number}-point-{point.role}-{index}">'
            source = source.replace(identity, f"{identity}\n<title>{markup(tip)}</title>", 1)
        for index, bar in enumerate(chart.bars if chart.look == "icicle" else ()):  # few have room for their names
            identity = f'<g id="{prefix}c{number}-bar-{index}">'
            source = source.replace(identity, f"{identity}\n<title>{markup(f'{bar.label}: {bar.text}')}</title>", 1)
    source = re.sub(r"<metadata>.*?</metadata>\s*", "", source, flags=re.S)
    # a reader without the font gets one that runs no wider
    source = source.replace(f"font-family: '{FONT}'", f"font-family: '{FONT}', Verdana, Arial, sans-serif")
    return source.replace("<svg ", f'<svg role="img" aria-label="{markup(picture.title)}" ', 1)


def draw(picture: Picture, theme: str = "light", prefix: str = "") -> Figure:
    """A matplotlib figure of the picture, laid out for good: the axes get their size first, then labels their places."""
    with _settings(prefix):
        charts, alone, measure = picture.charts, isinstance(picture, Chart), measurer()
        style = ChartStyle(palette_of(theme), picture.groups(), measure, prefix=prefix, alone=alone)
        styles = [replace(style, number=number) for number in range(len(charts))]
        rows, columns = picture.shape
        each = GRID_WIDTH if isinstance(picture, Panel) and picture.columns else PANEL_WIDTH
        page = Page(PAGE_WIDTH if alone else each * columns, style.palette, prefix, measure)
        page.write([picture.title], TITLE_SIZE, style.palette["ink"], "title", "bold", top=True)
        page.write([picture.subtitle], BODY_SIZE, style.palette["muted"], "subtitle", top=True)

        grid = page.figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        for unused in grid[len(charts) :]:
            unused.remove()
        panels = list(zip(grid[: len(charts)], charts, styles, strict=True))
        height = max(plot_height(chart) for chart in charts)
        for axes, chart, chart_style in panels:
            draw_axes(axes, chart, chart_style, height)
            if not alone:
                gid = chart_style.gid("head")
                axes.set_title(
                    chart.title, fontsize=HEAD_SIZE, fontweight="bold", color=style.palette["ink"], loc="left", gid=gid
                )
        page.lay_out(height, rows)
        locked = [height_of_equal_decades(chart, axes.get_window_extent().width) for axes, chart, _ in panels if chart.equal_decades]  # fmt: skip
        if locked:
            page.lay_out(max(locked), rows)
        names = [names for panel in panels if (names := add_labels(*panel)) is not None]
        _write_below(page, picture, style, names)
        return page.figure


def _write_below(page: Page, picture: Picture, style: ChartStyle, names: list[PlaneLabels]) -> None:
    """Legend, list of numbered names and notes; the lowest block goes first."""
    numbered = [line for each in names for line in each.numbered]
    dropped = sum(each.dropped for each in names)
    notes = list(dict.fromkeys([*picture.notes, *(note for chart in picture.charts for note in chart.notes)]))
    if numbered:
        notes.append("numbers: names listed above")
    if dropped:
        notes.append(f"{dropped} {'label' if dropped == 1 else 'labels'} not shown; --out FILE.csv lists all points")
    page.write(notes, SMALL_SIZE, style.palette["muted"], "notes")
    page.add_legend([Entry(line, "none") for line in numbered], SMALL_SIZE, 4.0, "numbered")
    entries = [entry for chart in picture.charts for entry in entries_of(chart, style)]
    entries += [entry for each in names for entry in each.legend_entries]
    by_name: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        by_name.setdefault((entry.text, entry.colour), entry)
    page.add_legend(list(by_name.values()), BODY_SIZE, 6.5, "legend")


@cache
def measurer() -> Measure:
    """Measures texts in points; at ten times their size, so that rounding to pixels does not matter."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    renderer = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=720)).get_renderer()

    @lru_cache(maxsize=10_000)
    def measure(size: float, weight: str, words: str) -> float:
        font = FontProperties(family=FONT, size=size, weight=weight)
        return float(renderer.get_text_width_height_descent(words, font, False)[0]) / 10

    return measure


class Margins(NamedTuple):
    """Left and right of each column of axes, below and above each row, in points."""

    columns: tuple[tuple[float, float], ...]
    rows: tuple[tuple[float, float], ...]


class Page:
    """A figure of fixed width, at 72 dots per inch so that a pixel is a point."""

    def __init__(self, width: float, palette: dict[str, str], prefix: str, measure: Measure) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure: Figure = Figure((width / 72, width / 72), 72, facecolor=palette["background"])
        self.canvas = FigureCanvasAgg(self.figure)
        self.palette, self.prefix, self.measure = palette, prefix, measure
        self.room = width - 2 * MARGIN
        self.above = self.below = MARGIN  # heights of the blocks so far
        self.margins: Margins | None = None

    def write(
        self, words: Sequence[str], size: float, colour: str, gid: str, weight: str = "normal", top: bool = False
    ) -> None:
        """Paragraphs under the blocks already above the axes, or over those already below: the lowest goes first."""
        measure = partial(self.measure, size, weight)
        lines = [line for paragraph in words for line in wrap(paragraph, self.room / HINTING, measure)]
        if lines:
            text = self.figure.text(
                0, 1 if top else 0, "\n".join(lines), fontsize=size, fontweight=weight, color=colour, linespacing=1.35,
                va="top" if top else "bottom", transform=self._edge(top), gid=self.prefix + gid,
            )  # fmt: skip
            self._stack(text, top)

    def add_legend(self, entries: Sequence[Entry], size: float, line_gap: float, gid: str) -> None:
        """Entries over the blocks already below the axes, in as many columns as fit; a list when none has a symbol."""
        from matplotlib.lines import Line2D

        if not entries:
            return
        handles = [
            Line2D([], [], color=entry.colour, linestyle=entry.dash or "none", linewidth=1.8, marker=entry.marker or "none", markersize=entry.size, markeredgewidth=0)
            for entry in entries
        ]  # fmt: skip
        symbols = any(entry.dash or entry.marker for entry in entries)
        handle, gap = (max([HANDLE_WIDTH, *(entry.size for entry in entries)]), HANDLE_GAP) if symbols else (0.0, 0.0)
        measure = partial(self.measure, size, "normal")
        room = self.room - handle - gap
        texts = [entry.text for entry in entries]
        texts = [text if measure(text) <= room else "\n".join(wrap(text, room, measure)) for text in texts]
        widths = [handle + gap + max(measure(line) for line in text.split("\n")) + COLUMN_GAP for text in texts]
        legend = self.figure.legend(
            handles, texts, ncols=_columns_that_fit(widths, self.room), fontsize=size, labelcolor=self.palette["ink"], frameon=False,
            loc="lower left", bbox_to_anchor=(0, 0), bbox_transform=self._edge(top=False), borderpad=0, borderaxespad=0,
            handlelength=handle / size, handletextpad=gap / size, columnspacing=COLUMN_GAP / size, labelspacing=line_gap / size,
        )  # fmt: skip
        for number, text in enumerate(legend.get_texts()):
            text.set_gid(f"{self.prefix}{gid}-{number}")
        self._stack(legend, top=False)

    def _edge(self, top: bool) -> Transform:
        """The left margin, at the height of the next block from the top or the bottom of the page."""
        from matplotlib.transforms import ScaledTranslation

        height = -self.above if top else self.below
        return self.figure.transFigure + ScaledTranslation(MARGIN / 72, height / 72, self.figure.dpi_scale_trans)

    def _stack(self, block: Artist, top: bool) -> None:
        """Let the page grow by a new block; axes keep their size, and what is written below pushes them up."""
        height = block.get_window_extent(self.canvas.get_renderer()).height + BLOCK_GAP
        self.above += height if top else 0.0
        self.below += 0.0 if top else height
        before = self.figure.bbox.height
        after = before + height
        self.figure.set_figheight(after / 72)
        for axes in self.figure.axes:
            x, y, wide, high = axes.get_position().bounds
            axes.set_position((x, (y * before + height) / after, wide, high * before / after))

    def lay_out(self, height: float, rows: int = 1) -> None:
        """Give the axes of every row this height and the margins their texts need, and the page the height that takes."""
        for _ in range(MAX_LAYOUTS):
            margins = self._margins(rows)
            wide = (self.figure.bbox.width - sum(map(sum, margins.columns))) / len(margins.columns)
            gaps = ROW_GAP * height * (rows - 1)
            page = self.above + self.below + 2 * AXES_GAP + sum(map(sum, margins.rows)) + rows * height + gaps
            self.figure.set_figheight(page / 72)
            for axes, row, column in self._cells():
                left = sum(map(sum, margins.columns[:column])) + margins.columns[column][0] + column * wide
                below = (
                    sum(map(sum, margins.rows[row + 1 :]))
                    + margins.rows[row][0]
                    + (rows - 1 - row) * height * (1 + ROW_GAP)
                )
                bottom = self.below + AXES_GAP + below
                axes.set_position(
                    (left / self.figure.bbox.width, bottom / page, wide / self.figure.bbox.width, height / page)
                )
            if margins == self.margins:
                break
            self.margins = margins

    def _cells(self) -> list[tuple[Axes, int, int]]:
        """The axes with their row and column; they have a place of the grid until they get one of ours."""
        return [(axes, spec.rowspan.start, spec.colspan.start) for axes in self.figure.axes if (spec := axes.get_subplotspec()) is not None]  # fmt: skip

    def _margins(self, rows: int) -> Margins:
        """What texts take around the axes: left and right of each column, below and above each row."""
        cells = self._cells()
        columns = 1 + max(column for _, _, column in cells)
        across, up = [(0.0, 0.0)] * columns, [(0.0, 0.0)] * rows
        for axes, row, column in cells:
            area, outer = axes.get_window_extent(), axes.get_tightbbox(self.canvas.get_renderer(), for_layout_only=True)
            assert outer is not None  # of axes that are drawn
            sides = (round(area.x0 - outer.x0 + MARGIN, 2), round(outer.x1 - area.x1 + MARGIN, 2))
            heights = (round(area.y0 - outer.y0, 2), round(outer.y1 - area.y1, 2))
            across[column] = max(across[column][0], sides[0]), max(across[column][1], sides[1])
            up[row] = max(up[row][0], heights[0]), max(up[row][1], heights[1])
        return Margins(tuple(across), tuple(up))


def _columns_that_fit(widths: Sequence[float], room: float) -> int:
    """The largest number of columns, filled downwards, whose widest entries fit beside each other."""
    from numpy import array_split

    for count in range(len(widths), 1, -1):
        if sum(max(column) for column in array_split(widths, count)) <= room + COLUMN_GAP:
            return count
    return 1
