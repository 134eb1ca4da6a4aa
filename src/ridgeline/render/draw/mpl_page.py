"""One page of matplotlib, addressed in points from its lower left corner, and how an arranged chart is put on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..chart import LOG, Axis
from .arrange import (
    BODY,
    BOLD,
    EDGE,
    MARKER,
    RADIUS,
    SMALL,
    Arranged,
    Entry,
    Measure,
    gid_of,
    group_colour,
    mark_colour,
    point_colour,
)
from .labels import COLOURS, position

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "DejaVu Sans"
CROWD = 150  # points from which on they are drawn smaller
LOOKS: dict[str, dict[str, Any]] = {
    "bandwidth": {"linewidth": 2.2}, "peak": {"linewidth": 2.2}, "series": {"linewidth": 2.0}, "guide": {"linewidth": 0.9, "alpha": 0.75},
    "target": {"linewidth": 1.2, "linestyle": (0, (4, 2))},
}  # fmt: skip


def measurer() -> Measure:
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


class Page:
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


def draw_plane(page: Page, plane: Arranged, left: float, base: float, groups: list[str], number: int) -> None:
    from matplotlib.patches import FancyArrowPatch

    chart, palette = plane.chart, page.palette
    made = page.axes(left, base, plane.width, plane.height, gid_of(number, "axes"))
    made.set_axisbelow(True)
    _set_axis(made, "x", chart.x, plane.x_ticks, palette)
    _set_axis(made, "y", chart.y, plane.y_ticks, palette)
    if not chart.y.shown:
        for side in ("left", "right", "top"):
            made.spines[side].set_visible(False)
    page.text(
        left + plane.width / 2, base - 36, chart.x.title, BODY, palette["ink"], gid_of(number, "x-title"), ha="center"
    )
    if chart.y.shown:
        page.text(
            left - plane.left + EDGE + 8,
            base + plane.height / 2,
            chart.y.title,
            BODY,
            palette["ink"],
            gid_of(number, "y-title"),
            ha="center",
            rotation=90,
        )

    for region in chart.regions:
        (x0, x1), (y0, y1) = region.x or chart.x.range, region.y or chart.y.range
        if region.role in palette and x1 > x0 and y1 > y0:
            shade = made.fill_between([x0, x1], y0, y1, color=palette[region.role], linewidth=0, zorder=0.4)
            shade.set_gid(page.prefix + gid_of(number, "region", region.role))
    for index, mark in enumerate(chart.marks):
        style = {
            "color": mark_colour(palette, groups, mark),
            "linestyle": "--" if mark.role == "ridge" else ":",
            "linewidth": 1.1,
            "zorder": 2,
        }
        found = made.axvline(mark.value, **style) if mark.axis == "x" else made.axhline(mark.value, **style)
        found.set_gid(page.prefix + gid_of(number, f"mark-{mark.role}", index))
    for index, line in enumerate(chart.lines):
        colour = group_colour(palette, groups, line.group, "ink" if line.role in ("bandwidth", "peak") else "muted")
        look = LOOKS.get(line.role, {"linewidth": 1.2})
        drawn = made.plot(
            [x for x, _ in line.points],
            [y for _, y in line.points],
            color=colour,
            solid_capstyle="round",
            zorder=2.2 if line.role == "guide" else 3,
            **look,
        )[0]
        drawn.set_gid(page.prefix + gid_of(number, f"line-{line.role}", index))
    for index, arrow in enumerate(chart.arrows):
        patch = FancyArrowPatch(
            arrow.start,
            arrow.end,
            arrowstyle="-|>",
            mutation_scale=11,
            color=group_colour(palette, groups, arrow.group),
            linewidth=1.5,
            shrinkA=4,
            shrinkB=1,
            zorder=4,
        )
        patch.set_gid(page.prefix + gid_of(number, f"arrow-{arrow.role}", index))
        made.add_patch(patch)
    smaller = min(1.0, (CROWD / max(len(chart.points), 1)) ** 0.25)  # hundreds of points would hide each other
    for index, point in enumerate(chart.points):
        colour = point_colour(palette, groups, point)
        hollow = point.role == "target"
        size = 2 * RADIUS.get(point.role, 4.0) * (0.85 if point.role in ("observed", "overhead") else 1.0) * smaller
        edge = colour if hollow or point.role == "floor" else palette["background"]
        drawn = made.plot(
            [point.x], [point.y], marker=MARKER.get(point.role, "o"), markersize=size, linestyle="none", color=colour, markeredgecolor=edge,
            markerfacecolor=palette["background"] if hollow else colour, markeredgewidth=(1.8 if hollow or point.role == "floor" else 0.7) * smaller, clip_on=False, zorder=5,
        )[0]  # fmt: skip
        drawn.set_gid(page.prefix + gid_of(number, f"point-{point.role}", index))
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


def draw_bars(page: Page, bars: Arranged, left: float, base: float, groups: list[str], number: int) -> None:
    chart, palette = bars.chart, page.palette
    made = page.axes(left, base, bars.width, bars.height, gid_of(number, "axes"))
    made.set_axisbelow(True)
    _set_axis(made, "x", chart.x, bars.x_ticks, palette)
    made.set_ylim(0, bars.height)
    made.set_yticks([])
    for side in ("right", "top"):
        made.spines[side].set_visible(False)
    page.text(
        left + bars.width / 2, base - 36, chart.x.title, BODY, palette["ink"], gid_of(number, "x-title"), ha="center"
    )
    before = None
    for index, bar in enumerate(chart.bars):
        y = bars.height - 5 - 27 * (index + 0.5)
        colour = group_colour(palette, groups, bar.group, "c0")
        start = chart.x.range[0] if bar.start is None else bar.start
        hatch = (
            {"hatch": "////", "facecolor": palette["background"], "edgecolor": colour}
            if bar.role == "unexplained"
            else {"color": colour}
        )
        for patch in made.barh(y, bar.value - start, height=17, left=start, linewidth=0.8, zorder=3, **hatch):
            patch.set_gid(page.prefix + gid_of(number, "bar", index))
        if bar.label != before:
            page.text(
                left - 8,
                base + y,
                bar.label,
                BODY,
                palette["ink"],
                gid_of(number, "bar-label", index),
                ha="right",
                va="center",
            )
        before = bar.label
        end = position(chart.x, bar.value, 0, bars.width)
        page.text(
            left + end + 6, base + y, bar.text, SMALL, palette["ink"], gid_of(number, "bar-text", index), va="center"
        )


def draw_pyramid(page: Page, steps: Arranged, left: float, base: float, number: int, measure: Measure) -> None:
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
        patch.set_gid(page.prefix + gid_of(number, "step", index))
        page.figure.add_artist(patch)
        page.text(
            left + widest / 2,
            y + 23,
            bar.label,
            BODY,
            palette["background"],
            gid_of(number, "step-label", index),
            ha="center",
            va="center",
            weight="bold",
        )
        page.text(
            left + widest + 14, y + 23, bar.text, BODY, palette["ink"], gid_of(number, "step-text", index), va="center"
        )


def _set_axis(made: Any, which: str, axis: Axis, marks: list[tuple[float, str]], palette: dict[str, str]) -> None:
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
