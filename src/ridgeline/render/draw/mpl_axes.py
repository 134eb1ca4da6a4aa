"""Draws one chart on matplotlib axes: a plane, bars, a pyramid or an icicle."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..chart import Axis, Chart, Point, step_sizes
from .labels import position, shorten, ticks
from .mpl_icicle import draw_icicle, icicle_height, name_bars
from .placement import spread
from .plane_labels import Label, PlaneLabels, radius_of
from .themes import BODY_SIZE, MARKER, SMALL_SIZE, ChartStyle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLANE_HEIGHT, SCALE_HEIGHT, BAR_PITCH, BAR_HEIGHT, STEP_PITCH, STEP_HEIGHT = 380.0, 150.0, 27.0, 17.0, 46.0, 42.0
MAX_BAR_LABEL, MAX_BAR_TEXT, MAX_PEAK_NAME = 34, 50, 80  # characters; the rest of the width is left for the plot
CROWD_SIZE = 150  # with more points than this they are drawn smaller
LINES: dict[str, dict[str, Any]] = {
    "bandwidth": {"linewidth": 2.2}, "peak": {"linewidth": 2.2}, "series": {"linewidth": 2.0},
    "guide": {"linewidth": 0.9, "alpha": 0.75, "zorder": 2.2}, "target": {"linewidth": 1.2, "linestyle": (0, (4, 2))},
}  # fmt: skip


def plot_height(chart: Chart) -> float:
    if chart.look == "bars":
        return BAR_PITCH * len(chart.bars) + 10
    if chart.look == "pyramid":
        return STEP_PITCH * len(chart.bars)
    if chart.look == "icicle":
        return icicle_height(chart)
    return PLANE_HEIGHT if chart.y.shown else SCALE_HEIGHT


def height_of_equal_decades(chart: Chart, width: float) -> float:
    """The height at which a decade of y is as long as a decade of x on axes of this width."""
    across, up = (math.log(axis.range[1] / axis.range[0]) for axis in (chart.x, chart.y))
    return width * up / across


def draw_axes(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    """Everything but the labels whose places depend on the size of the axes; `height` is that of the plot in points."""
    axes.set_gid(style.gid("axes"))
    axes.set_facecolor(style.palette["background"])
    axes.set_axisbelow(True)
    axes.spines[:].set(color=style.palette["frame"], linewidth=0.8)
    axes.tick_params(
        colors=style.palette["frame"], labelcolor=style.palette["ink"], labelsize=SMALL_SIZE, length=3, width=0.8
    )
    look = {"bars": _draw_bars, "pyramid": _draw_pyramid, "icicle": _draw_icicle}.get(chart.look, _draw_plane)
    look(axes, chart, style, height)


def add_labels(axes: Axes, chart: Chart, style: ChartStyle) -> PlaneLabels | None:
    """Labels on axes that have their final size; None for charts that have no points to name."""
    area = axes.get_window_extent()
    _thin_ticks(axes, style)
    if chart.look == "pyramid":
        _widen_steps(axes, chart, style, area.width)
    if chart.look == "icicle":
        name_bars(axes, chart, style, area.width, area.height)
    if chart.look != "plane":
        return None
    for name in [text for text in axes.texts if str(text.get_gid()).startswith(style.gid("line-label"))]:
        name.remove()  # they reserved their margin; now the height is known
    _draw_peak_names(axes, chart, style, area.height)
    names = PlaneLabels(chart, area.width, area.height, style)
    for label in names.labels:
        _add_label(axes, label, area.width, area.height, style)
    return names


def _thin_ticks(axes: Axes, style: ChartStyle) -> None:
    """Every second tick of the x axis, or fewer, where all would have labels that touch."""
    values, labels = list(axes.get_xticks()), [label.get_text() for label in axes.get_xticklabels()]
    for stride in range(1, len(values) + 1):
        centres = [axes.transData.transform((value, 1))[0] for value in values[::stride]]
        widths = [style.measure(SMALL_SIZE, "normal", label) for label in labels[::stride]]
        pairs = pairwise(zip(centres, widths, strict=True))
        if all(right - left > (left_width + right_width) / 2 + 4 for (left, left_width), (right, right_width) in pairs):
            if stride > 1:
                axes.set_xticks(values[::stride], labels=labels[::stride])
            return


def _add_label(axes: Axes, label: Label, width: float, height: float, style: ChartStyle) -> None:
    from matplotlib.lines import Line2D

    if label.leader is not None:
        (x0, y0), (x1, y1) = label.leader
        leader = Line2D(
            [x0 / width, x1 / width], [y0 / height, y1 / height], color=style.palette["frame"], linewidth=0.8,
            transform=axes.transAxes, zorder=6, gid=f"{label.gid}-leader",
        )  # fmt: skip
        axes.add_artist(leader)
    axes.text(
        label.x / width, label.y / height, label.text, transform=axes.transAxes, ha="center", va="center", zorder=7,
        rotation=label.angle, rotation_mode="anchor", fontsize=label.size, fontweight=label.weight, color=label.colour, gid=label.gid,
    )  # fmt: skip


def _set_axis(axes: Axes, which: str, axis: Axis, max_ticks: int, style: ChartStyle) -> None:
    values = ticks(axis, max_ticks)
    ruler = getattr(axes, f"{which}axis")
    axes.set(**{f"{which}scale": axis.scale, f"{which}lim": axis.range})
    ruler.set_ticks([value for value, _ in values], labels=[label for _, label in values])
    ruler.set_ticks([], minor=True)
    ruler.labelpad = 7
    ruler.set_label_text(axis.title, fontsize=BODY_SIZE, color=style.palette["ink"], gid=style.gid(f"{which}-title"))
    ruler.grid(True, color=style.palette["grid"], linewidth=0.7)


def _draw_plane(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    _set_axis(axes, "x", chart.x, 11 if style.alone else 7, style)
    if chart.y.shown:
        _set_axis(axes, "y", chart.y, 8, style)
    else:
        axes.set(yscale=chart.y.scale, ylim=chart.y.range, yticks=[])
        axes.set_yticks([], minor=True)
        axes.spines[["left", "right", "top"]].set_visible(False)
    for region in chart.regions:
        (x0, x1), (y0, y1) = region.x or chart.x.range, region.y or chart.y.range
        if region.role in style.palette and x1 > x0 and y1 > y0:
            colour, gid = style.palette[region.role], style.gid("region", region.role)
            axes.fill_between([x0, x1], y0, y1, color=colour, linewidth=0, zorder=0.4, gid=gid)
    _draw_lines(axes, chart, style)
    _draw_peak_names(axes, chart, style, height)
    # hundreds of points of full size would hide each other
    scale = min(1.0, (CROWD_SIZE / max(len(chart.points), 1)) ** 0.25)
    for index, point in enumerate(chart.points):
        _draw_point(axes, point, scale, style, style.gid(f"point-{point.role}", index))


def _draw_icicle(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    _set_axis(axes, "x", chart.x, 8 if style.alone else 5, style)
    draw_icicle(axes, chart, style, height)


def _draw_lines(axes: Axes, chart: Chart, style: ChartStyle) -> None:
    from matplotlib.patches import FancyArrowPatch

    for index, mark in enumerate(chart.marks):
        draw = axes.axvline if mark.axis == "x" else axes.axhline
        dash, gid = "--" if mark.role == "ridge" else ":", style.gid(f"mark-{mark.role}", index)
        draw(mark.value, color=style.mark_colour(mark), linestyle=dash, linewidth=1.1, zorder=2, gid=gid)
    for index, line in enumerate(chart.lines):
        colour = style.group_colour(line.group, "ink" if line.role in ("bandwidth", "peak") else "muted")
        look = {"linewidth": 1.2, "zorder": 3, **LINES.get(line.role, {})}
        gid = style.gid(f"line-{line.role}", index)
        if line.role == "area":
            across, up = zip(*line.points, strict=True)
            axes.fill_between(across, up, 0, color=colour, linewidth=0, zorder=2.5, step="post", gid=gid)
            continue
        axes.plot(*zip(*line.points, strict=True), color=colour, solid_capstyle="round", gid=gid, **look)
    for index, arrow in enumerate(chart.arrows):
        patch = FancyArrowPatch(
            arrow.start, arrow.end, arrowstyle="-|>", mutation_scale=11, color=style.group_colour(arrow.group),
            linewidth=1.5, shrinkA=4, shrinkB=1, zorder=4, gid=style.gid(f"arrow-{arrow.role}", index),
        )  # fmt: skip
        axes.add_patch(patch)


def _draw_peak_names(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    """Roofs that leave the plot on the right have their names in the margin there."""
    peaks = [(index, line) for index, line in enumerate(chart.lines) if line.role == "peak" and line.label]
    ends = [position(chart.y, line.points[-1][1], 0, height) for _, line in peaks]
    for (index, line), end, centre in zip(peaks, ends, spread(ends, 12.5, -6.0, height + 12.0), strict=True):
        moved = abs(centre - end) > 1
        leader = {"arrowstyle": "-", "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5), "color": style.palette["frame"], "linewidth": 0.8}  # fmt: skip
        axes.annotate(
            shorten(line.label, MAX_PEAK_NAME), (1, end / height), (8, centre - end), xycoords="axes fraction", textcoords="offset points", va="center",
            fontsize=SMALL_SIZE, color=style.group_colour(line.group), gid=style.gid("line-label", index), arrowprops=leader if moved else None,
        )  # fmt: skip


def _draw_point(axes: Axes, point: Point, scale: float, style: ChartStyle, gid: str) -> None:
    colour, background = style.point_colour(point), style.palette["background"]
    hollow, outlined = point.role == "target", point.role in ("target", "floor")
    marker = "o" if point.share is not None else MARKER.get(point.role, "o")
    size = 2 * radius_of(point) * (0.85 if marker in "Ds" else 1.0) * (1.0 if point.share is not None else scale)
    axes.plot(
        [point.x], [point.y], marker=marker, markersize=size, alpha=0.85 if point.share is not None else 1.0, linestyle="none", clip_on=False, zorder=5, gid=gid,
        markerfacecolor=background if hollow else colour, markeredgecolor=colour if outlined else background, markeredgewidth=(1.8 if outlined else 0.7) * scale,
    )  # fmt: skip


def _draw_bars(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    ink, background = style.palette["ink"], style.palette["background"]
    _set_axis(axes, "x", chart.x, 6 if style.alone else 5, style)
    axes.spines[["right", "top"]].set_visible(False)
    rows = [height - 5 - BAR_PITCH * (index + 0.5) for index in range(len(chart.bars))]
    names = [shorten(bar.label, MAX_BAR_LABEL) for bar in chart.bars]
    labels = [name if name != previous else "" for previous, name in pairwise(["", *names])]
    axes.set(ylim=(0, height))
    axes.set_yticks(rows, labels=labels)
    axes.tick_params(axis="y", length=0, pad=8, labelsize=BODY_SIZE)
    for index, (bar, y) in enumerate(zip(chart.bars, rows, strict=True)):
        colour = style.group_colour(bar.group, "c0")
        start = chart.x.range[0] if bar.start is None else bar.start
        hatched: dict[str, Any] = {"hatch": "////", "facecolor": background, "edgecolor": colour}
        look = hatched if bar.role == "unexplained" else {"color": colour}
        axes.barh(y, bar.value - start, BAR_HEIGHT, start, linewidth=0.8, zorder=3, gid=style.gid("bar", index), **look)
        axes.annotate(
            shorten(bar.text, MAX_BAR_TEXT), (bar.value, y), (6, 0), textcoords="offset points", va="center", fontsize=SMALL_SIZE, color=ink,
            gid=style.gid("bar-text", index), annotation_clip=False,
        )  # fmt: skip


def _draw_pyramid(axes: Axes, chart: Chart, style: ChartStyle, height: float) -> None:
    """Steps from the core outwards, as wide as the logarithm of their capacity; names inside, figures beside."""
    palette = style.palette
    axes.set(xlim=(0, 1), ylim=(0, height), xticks=[], yticks=[])
    axes.set_axis_off()
    for index, bar in enumerate(chart.bars):
        y = height - STEP_PITCH * (index + 0.5)
        axes.barh(y, 1, STEP_HEIGHT, color=style.group_colour(bar.group, "c0"), gid=style.gid("step", index))
        axes.text(
            0.5, y, shorten(bar.label, MAX_BAR_LABEL), ha="center", va="center", fontsize=BODY_SIZE, fontweight="bold", color=palette["background"],
            gid=style.gid("step-label", index),
        )  # fmt: skip
        axes.annotate(
            shorten(bar.text, MAX_BAR_TEXT), (1, y), (14, 0), textcoords="offset points", va="center", fontsize=BODY_SIZE, color=palette["ink"],
            gid=style.gid("step-text", index), annotation_clip=False,
        )  # fmt: skip


def _widen_steps(axes: Axes, chart: Chart, style: ChartStyle, width: float) -> None:
    """Every step holds its name; beyond that its width is the position of its capacity on a log axis."""
    for bar, size, step in zip(chart.bars, step_sizes(chart), axes.patches, strict=True):
        name = style.measure(BODY_SIZE, "bold", shorten(bar.label, MAX_BAR_LABEL))
        wide = min(1.0, max((name + 20) / width, position(chart.x, size, 0, 1)))
        step.set(x=(1 - wide) / 2, width=wide)
