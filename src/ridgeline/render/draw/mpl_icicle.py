"""Draws an icicle on matplotlib axes: bars in rows from the top down, each above the bars it consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..chart import Bar, Chart
from .themes import SMALL_SIZE, ChartStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW_PITCH, ROW_HEIGHT = 23.0, 21.5
PADDING = 5.0  # points between the edge of a bar and its name
MIN_LETTERS = 3  # of a name that is cut


def icicle_height(chart: Chart) -> float:
    return ROW_PITCH * (1 + max((bar.depth for bar in chart.bars), default=0))


def draw_icicle(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    """The bars; the x axis is set by the caller."""
    axes.set(ylim=(0, height), yticks=[])
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.grid(False)
    for index, bar in enumerate(chart.bars):
        axes.barh(
            height - ROW_PITCH * (bar.depth + 0.5), bar.value - (bar.start or 0.0), ROW_HEIGHT, bar.start or 0.0,
            color=style.group_colour(bar.group, "c0"), edgecolor=style.palette["background"], linewidth=0.7, zorder=3,
            gid=style.gid("bar", index),
        )  # fmt: skip


def name_bars(axes: Axes, chart: Chart, style: ChartStyle, width: float, height: float) -> None:
    """Names in the bars that have room for them, on axes of their final width."""
    first, last = chart.x.range
    for index, bar in enumerate(chart.bars):
        start = bar.start or 0.0
        room = (bar.value - start) / (last - first) * width - 2 * PADDING
        words = _fitting(bar, room, style)
        if words:
            axes.annotate(
                words, (start, height - ROW_PITCH * (bar.depth + 0.5)), (PADDING, 0), textcoords="offset points",
                va="center", fontsize=SMALL_SIZE, color=style.palette["background"], zorder=4, gid=style.gid("bar-label", index),
            )  # fmt: skip


def _fitting(bar: Bar, room: float, style: ChartStyle) -> str:
    """As much of name and figures as fits: both, the name, its first word, its beginning, nothing."""
    for words in (f"{bar.label}   {bar.text}", bar.label, bar.label.partition(" ")[0]):
        if style.measure(SMALL_SIZE, "normal", words) <= room:
            return words
    name = bar.label
    while len(name) > MIN_LETTERS and style.measure(SMALL_SIZE, "normal", f"{name}…") > room:
        name = name[:-1]
    return f"{name}…" if len(name) > MIN_LETTERS else ""
