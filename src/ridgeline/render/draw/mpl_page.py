"""A page of matplotlib axes with a title above and legend, list and notes below; the page grows with its texts.

Constrained layout finds the margins of the axes. It reserves only the largest of several texts at one edge of a figure,
not their sum, so the blocks above and below the axes are stacked here and the layout gets the rectangle between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from .labels import wrap
from .legend import Entry
from .themes import Measure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

FONT = "DejaVu Sans"
MARGIN = 18.0  # at the edges of the page
BLOCK_GAP, AXES_GAP = 7.0, 7.0  # between blocks; between the axes and the blocks above and below them
HANDLE_WIDTH, HANDLE_GAP, COLUMN_GAP = 18.0, 6.0, 16.0  # of a legend
MAX_LAYOUTS = 12  # texts at the ends of bars move with the width of the axes, so the margins take several rounds


@cache
def measurer() -> Measure:
    """Measures texts in points; at ten times their size, so that rounding to pixels does not matter."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

    renderer = FigureCanvasAgg(Figure(figsize=(1, 1), dpi=720)).get_renderer()

    @lru_cache(maxsize=10_000)
    def measure(words: str, size: float, weight: str) -> float:
        font = FontProperties(family=FONT, size=size, weight=weight)
        return float(renderer.get_text_width_height_descent(words, font, False)[0]) / 10

    return measure


class Page:
    """A figure of fixed width, at 72 dots per inch so that a pixel is a point."""

    def __init__(self, width: float, palette: dict[str, str], prefix: str, measure: Measure) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        # not attached to the figure: it runs when `lay_out` says so, not with every drawing
        self.engine = ConstrainedLayoutEngine(w_pad=MARGIN / 72, h_pad=0, wspace=0, hspace=0)
        self.figure: Figure = Figure((width / 72, width / 72), 72, facecolor=palette["background"])
        self.canvas = FigureCanvasAgg(self.figure)
        self.palette, self.prefix, self.measure = palette, prefix, measure
        self.room = width - 2 * MARGIN
        self.above = self.below = MARGIN  # heights of the blocks so far

    def write(
        self, words: Sequence[str], size: float, colour: str, gid: str, weight: str = "normal", top: bool = False
    ) -> None:
        """Paragraphs under the blocks already above the axes, or over those already below: the lowest goes first."""

        def measure(line: str) -> float:
            return self.measure(line, size, weight)

        lines = [line for paragraph in words for line in wrap(paragraph, self.room, measure)]
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
            Line2D([], [], color=entry.colour, linestyle=entry.dash or "none", linewidth=1.8, marker=entry.marker or "none", markersize=7, markeredgewidth=0)
            for entry in entries
        ]  # fmt: skip
        symbols = any(entry.dash or entry.marker for entry in entries)
        handle, gap = (HANDLE_WIDTH, HANDLE_GAP) if symbols else (0.0, 0.0)

        def measure(line: str) -> float:
            return self.measure(line, size, "normal")

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

    def lay_out(self, height: float) -> None:
        """Give the axes their margins and this height, and the page the height that takes."""
        previous: list[float] = []
        for _ in range(MAX_LAYOUTS):
            page = self.figure.bbox.height
            below, above = self.below + AXES_GAP, self.above + AXES_GAP
            self.engine.set(rect=(0, below / page, 1, 1 - (above + below) / page))
            self.engine.execute(self.figure)
            areas = [axes.get_window_extent() for axes in self.figure.axes]
            sides = [round(side, 2) for area in areas for side in (area.x0, area.x1)]
            if sides == previous:
                break
            previous = sides
            self.figure.set_figheight((page + height - areas[0].height) / 72)


def _columns_that_fit(widths: Sequence[float], room: float) -> int:
    """The largest number of columns, filled downwards, whose widest entries fit beside each other."""
    from numpy import array_split

    for count in range(len(widths), 1, -1):
        if sum(max(column) for column in array_split(widths, count)) <= room + COLUMN_GAP:
            return count
    return 1
