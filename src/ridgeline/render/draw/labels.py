"""What every drawing shares: positions on an axis, ticks, label placement without overlap, colours of the themes.

Label placement is greedy and deterministic: the most crowded label first, each at the cheapest place that touches
no other label, point, line or the frame; far places get a leader line. A label without such a place is not placed,
and whoever draws says so (a number and a list below).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.errors import unknown
from ...core.units import show
from ..chart import LOG, Axis

# -- colours ----------------------------------------------------------------------------------------------

# Okabe and Ito's set, darkened or lightened where the background asks for contrast; no colour stands twice in a theme.
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "background": "#ffffff", "ink": "#1a1f27", "muted": "#59616d", "grid": "#e3e6ea", "frame": "#9aa1ab",
        "memory": "#e8f1f8", "compute": "#fdf1e3", "overhead": "#f1eef4", "ridge": "#7a3e9d",
        "c0": "#0072b2", "c1": "#d55e00", "c2": "#007d5a", "c3": "#b0478a", "c4": "#b07800", "c5": "#2f8fd0", "c6": "#6b6f76",
    },
    "dark": {
        "background": "#14181f", "ink": "#e8ebf0", "muted": "#a3acb9", "grid": "#2a313b", "frame": "#5d6774",
        "memory": "#182736", "compute": "#2c241b", "overhead": "#26222e", "ridge": "#c79be8",
        "c0": "#5cb8f2", "c1": "#ff9150", "c2": "#3fcfa2", "c3": "#e593c6", "c4": "#f0c14b", "c5": "#9fd3ff", "c6": "#b4bac4",
    },
}  # fmt: skip
COLOURS = 7  # c0 .. c6


def theme(name: str) -> dict[str, str]:
    if name not in THEMES:
        raise unknown("theme", name, THEMES)
    return THEMES[name]


# -- axes -------------------------------------------------------------------------------------------------


def position(axis: Axis, value: float, first: float, last: float) -> float:
    """Where a value stands between `first` and `last` (points on paper, or cells)."""
    low, high = axis.range
    if axis.scale == LOG:
        low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
    return first + (value - low) / (high - low) * (last - first)


def ticks(axis: Axis, most: int = 9) -> list[tuple[float, str]]:
    """Values and their texts, at most `most` of them."""
    if axis.scale != LOG:
        return _even(axis, most)
    if axis.unit == "FLOP/byte" or axis.unit == "":
        return _powers(axis, 2.0, most)
    return _powers(axis, 10.0, most)


def _powers(axis: Axis, base: float, most: int) -> list[tuple[float, str]]:
    low, high = (math.log(value, base) for value in axis.range)
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    for step in (1, 2, 4, 6, 8, 12, 16):
        # multiples of the step, so that 1 is always among them when it is in range
        chosen = [power for power in range(first, last + 1) if power % step == 0]
        if len(chosen) <= most:
            break
    if len(chosen) < 3:
        return _steps(axis, most)
    return [(base**power, text(base**power, axis.unit)) for power in chosen]


def _steps(axis: Axis, most: int) -> list[tuple[float, str]]:
    """Ticks within decades for a log axis that covers little, evenly spaced ones where even that is too coarse."""
    low, high = axis.range
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [factor * 10.0**power for power in decades for factor in factors]
        found = [value for value in found if low * 0.999999 <= value <= high * 1.000001]
        if 2 <= len(found) <= most:
            return [(value, text(value, axis.unit)) for value in found]
    return _even(axis, most)


def _even(axis: Axis, most: int) -> list[tuple[float, str]]:
    low, high = axis.range
    raw = (high - low) / max(1, min(most, 7) - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= raw * 0.999)
    whole = axis.unit in ("year",)
    if whole:
        step = max(1.0, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    values = [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(value, text(value, axis.unit)) for value in values]


def text(value: float, unit: str) -> str:
    """A tick or a value as people write it: 1/16, 4, 100 GFLOP/s, 40 %."""
    if unit == "year":
        return f"{value:.0f}"
    if unit == "%":
        return f"{value * 100:.3g} %"
    if unit == "FLOP/byte" or unit == "":
        if (
            0 < value < 1
            and abs(1 / value - round(1 / value)) < 1e-9
            and round(1 / value) & (round(1 / value) - 1) == 0
        ):
            return f"1/{round(1 / value)}"
        if value >= 1e6:
            return show(value, "x", 3).removesuffix("x").replace(" ", "")
        return show(value, digits=4).replace(",", "")
    return show(value, unit, 4)


def amount(value: float, unit: str) -> str:
    """A value in running text, three or four figures: 153 FLOP/byte, 0.0833 FLOP/byte."""
    return show(value, "", 3 if value < 1000 else 4) + f" {unit}" if unit == "FLOP/byte" else show(value, unit, 4)


def shorten(name: str, most: int = 34) -> str:
    """A long name with its middle left out."""
    if len(name) <= most:
        return name
    head = (most - 1) * 2 // 3
    return f"{name[:head]}…{name[-(most - 1 - head) :]}"


def wrap(words: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Text in lines no wider than `width` as `measure` sees it; a word that is too long stands alone."""
    lines: list[str] = []
    for word in words.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return lines


# -- placing labels ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    x0: float
    y0: float
    x1: float
    y1: float

    def overlaps(self, other: Box, gap: float = 0.0) -> bool:
        return (
            self.x0 < other.x1 + gap
            and other.x0 < self.x1 + gap
            and self.y0 < other.y1 + gap
            and other.y0 < self.y1 + gap
        )

    def within(self, frame: Box) -> bool:
        return self.x0 >= frame.x0 and self.y0 >= frame.y0 and self.x1 <= frame.x1 and self.y1 <= frame.y1

    def holds(self, x: float, y: float, gap: float = 0.0) -> bool:
        return self.x0 - gap < x < self.x1 + gap and self.y0 - gap < y < self.y1 + gap

    def crossed_by(self, segment: Segment, gap: float = 0.0) -> bool:
        """Whether a segment passes through (Liang and Barsky's clipping)."""
        (ax, ay), (bx, by) = segment
        dx, dy = bx - ax, by - ay
        start, end = 0.0, 1.0
        for change, room in (
            (-dx, ax - (self.x0 - gap)),
            (dx, self.x1 + gap - ax),
            (-dy, ay - (self.y0 - gap)),
            (dy, self.y1 + gap - ay),
        ):
            if change == 0:
                if room <= 0:
                    return False
            elif change < 0:
                start = max(start, room / change)
            else:
                end = min(end, room / change)
        return start < end


Segment = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Disc:
    """A point marker to keep clear of."""

    x: float
    y: float
    radius: float

    def touches(self, box: Box) -> bool:
        dx = max(box.x0 - self.x, 0.0, self.x - box.x1)
        dy = max(box.y0 - self.y, 0.0, self.y - box.y1)
        return dx * dx + dy * dy < self.radius * self.radius


@dataclass(frozen=True)
class Wanted:
    """A label that wants to stand near (x, y); `radius` is how far its own marker reaches."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 4.0


@dataclass(frozen=True)
class Placed:
    box: Box
    leader: Segment | None = None


# Right of the point reads best, then above, below and left; between them the slanted places.
_DIRECTIONS = (
    (0, 0),
    (1, 1),
    (-1, 1),
    (4, 2),
    (-4, 2),
    (8, 3),
    (2, 2),
    (-2, 2),
    (3, 3),
    (-3, 3),
    (6, 4),
    (-6, 4),
    (5, 4),
    (-5, 4),
    (7, 4),
    (-7, 4),
)
_GAPS = (2.0, 7.0, 14.0, 24.0, 38.0, 56.0, 80.0, 110.0)
LEADER_FROM = 11.0  # a label farther than this from its point gets a leader


def _candidates(label: Wanted, unit: float) -> list[tuple[float, float, Box]]:
    found = []
    for gap in _GAPS:
        for steps, cost in _DIRECTIONS:
            ux, uy = math.cos(steps * math.pi / 8), math.sin(steps * math.pi / 8)
            reach = label.radius + gap * unit
            cx = label.x + ux * reach + max(-1.0, min(1.0, 1.7 * ux)) * label.width / 2
            cy = label.y + uy * reach + max(-1.0, min(1.0, 1.7 * uy)) * label.height / 2
            box = Box(cx - label.width / 2, cy - label.height / 2, cx + label.width / 2, cy + label.height / 2)
            found.append((cost + gap * 0.6, gap, box))
    return sorted(found, key=lambda each: each[0])


def place(
    labels: Sequence[Wanted],
    frame: Box,
    discs: Sequence[Disc] = (),
    segments: Sequence[Segment] = (),
    boxes: Sequence[Box] = (),
    gap: float = 1.5,
    unit: float = 1.0,
) -> list[Placed | None]:
    """A place for every label, or None where there is none that touches nothing.

    `discs` are markers, `segments` lines, `boxes` texts that already stand; `unit` scales the distances tried.
    """
    around = 60.0 * unit
    crowd = [
        sum(abs(one.x - other.x) < around + one.width / 2 and abs(one.y - other.y) < around / 2 for other in labels)
        for one in labels
    ]
    order = sorted(range(len(labels)), key=lambda index: (-crowd[index], index))
    found: list[Placed | None] = [None] * len(labels)
    taken: list[Box] = list(boxes)
    leaders: list[Segment] = []
    for index in order:
        label = labels[index]
        best: tuple[float, Placed] | None = None
        places = _candidates(label, unit)
        near = _Near(_hull([box for _, _, box in places]), discs, [*segments, *leaders], taken, gap)
        for cost, distance, box in places:
            if best is not None and cost >= best[0]:
                break
            if not box.within(frame) or not near.free(box):
                continue
            leader = _leader(label, box) if distance > LEADER_FROM else None
            if leader is not None and any(other.crossed_by(leader) for other in near.boxes):
                continue
            if leader is not None:
                # a leader through a line or another point reads badly, so a farther place may be the better one
                cost += 12.0 * sum(_cross(leader, segment) for segment in near.segments)
                cost += 20.0 * sum(_near(leader, disc) for disc in near.discs if (disc.x, disc.y) != (label.x, label.y))
            if best is None or cost < best[0]:
                best = cost, Placed(box, leader)
        if best is not None:
            found[index] = best[1]
            taken.append(best[1].box)
            if best[1].leader is not None:
                leaders.append(best[1].leader)
    return found


def ladder(
    labels: Sequence[Wanted], frame: Box, discs: Sequence[Disc] = (), segments: Sequence[Segment] = (), boxes: Sequence[Box] = ()
) -> list[Placed] | None:  # fmt: skip
    """Small labels of a crowd in a row beside it, in the order of their points, each with a leader; None when there is no room.

    Keeping the order keeps leaders from crossing. One row is tried first, near the crowd, below or above it; then every
    other label goes below and the rest above.
    """
    if not labels:
        return []
    order = sorted(range(len(labels)), key=lambda index: (labels[index].x, labels[index].y, index))
    high = max(label.height for label in labels)
    low, top = min(label.y - label.radius for label in labels), max(label.y + label.radius for label in labels)
    below = [low - 20 - high / 2 - 8 * step for step in range(40)]
    above = [top + 20 + high / 2 + 8 * step for step in range(40)]
    either = [row for pair in zip(below, above, strict=True) for row in pair]
    for plan in ([(order, either)], [(order[::2], below), (order[1::2], above)]):
        found: dict[int, Placed] = {}
        for members, rows in plan:
            made = _row(labels, members, rows, frame, discs, segments, [*boxes, *(spot.box for spot in found.values())])
            if made is None:
                break
            found |= made
        if len(found) == len(labels):
            return [found[index] for index in range(len(labels))]
    return None


def _row(
    labels: Sequence[Wanted], members: Sequence[int], rows: Sequence[float], frame: Box, discs: Sequence[Disc], segments: Sequence[Segment], boxes: Sequence[Box]
) -> dict[int, Placed] | None:  # fmt: skip
    wide, high = max(labels[index].width for index in members), max(labels[index].height for index in members)
    for y in rows:
        band = Box(frame.x0, y - high / 2, frame.x1, y + high / 2)
        if not band.within(frame):
            continue
        near = _Near(band, discs, segments, boxes)
        spots = []
        for step in range(int((frame.x1 - frame.x0 - wide) / 3) + 1):
            x = frame.x0 + wide / 2 + 3 * step
            if near.free(Box(x - wide / 2, band.y0, x + wide / 2, band.y1)):
                spots.append(x)
        centres = _in_order([labels[index].x for index in members], spots, wide + 3.0)
        if centres is None:
            continue
        found: dict[int, Placed] = {}
        for index, centre in zip(members, centres, strict=True):
            box = Box(centre - labels[index].width / 2, band.y0, centre + labels[index].width / 2, band.y1)
            found[index] = Placed(box, _leader(labels[index], box))
        if not any(other.crossed_by(spot.leader) for spot in found.values() if spot.leader for other in boxes):
            return found
    return None


class _Near:
    """What lies within reach of a place; everything else need not be looked at again."""

    def __init__(
        self, reach: Box, discs: Sequence[Disc], segments: Sequence[Segment], boxes: Sequence[Box], gap: float = 1.5
    ) -> None:
        self.gap = gap
        self.discs = [disc for disc in discs if disc.touches(reach)]
        self.segments = [segment for segment in segments if reach.crossed_by(segment, gap)]
        self.boxes = [box for box in boxes if box.overlaps(reach, gap)]

    def free(self, box: Box) -> bool:
        return (
            not any(box.overlaps(other, self.gap) for other in self.boxes)
            and not any(disc.touches(box) for disc in self.discs)
            and not any(box.crossed_by(segment, self.gap * 0.5) for segment in self.segments)
        )


def _in_order(wanted: Sequence[float], spots: Sequence[float], apart: float) -> list[float] | None:
    """One spot for each, ascending and `apart`, with the least total distance; None when they do not all fit."""
    worst = math.inf
    best = [0.0] * (len(spots) + 1)  # cost of placing those so far among the first k spots
    steps: list[list[int]] = []
    # first[k]: how many spots lie at least `apart` before spot k
    first = [sum(other <= spot - apart + 1e-9 for other in spots) for spot in spots]
    for target in wanted:
        row, chosen = [worst], [-1]
        for index, spot in enumerate(spots):
            cost = best[first[index]] + abs(spot - target)
            better = cost < row[-1]
            row.append(cost if better else row[-1])
            chosen.append(index if better else chosen[-1])
        best = row
        steps.append(chosen)
    if not spots or best[-1] == worst:
        return None
    found, limit = [], len(spots)
    for chosen in reversed(steps):
        index = chosen[limit]
        found.append(spots[index])
        limit = first[index]
    return found[::-1]


def _hull(boxes: Sequence[Box]) -> Box:
    return Box(
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


def _cross(one: Segment, other: Segment) -> bool:
    """Whether two segments cross; touching at an end does not count."""

    def side(start: tuple[float, float], end: tuple[float, float], spot: tuple[float, float]) -> float:
        return (end[0] - start[0]) * (spot[1] - start[1]) - (end[1] - start[1]) * (spot[0] - start[0])

    return side(*one, other[0]) * side(*one, other[1]) < 0 and side(*other, one[0]) * side(*other, one[1]) < 0


def _near(segment: Segment, disc: Disc) -> bool:
    (ax, ay), (bx, by) = segment
    size = (bx - ax) ** 2 + (by - ay) ** 2
    part = 0.0 if size == 0 else max(0.0, min(1.0, ((disc.x - ax) * (bx - ax) + (disc.y - ay) * (by - ay)) / size))
    return math.hypot(disc.x - ax - part * (bx - ax), disc.y - ay - part * (by - ay)) < disc.radius


def _leader(label: Wanted, box: Box) -> Segment:
    """From the edge of the marker to the nearest point of the box."""
    x, y = min(max(label.x, box.x0), box.x1), min(max(label.y, box.y0), box.y1)
    length = math.hypot(x - label.x, y - label.y) or 1.0
    inset = min(label.radius, length)
    return (label.x + (x - label.x) / length * inset, label.y + (y - label.y) / length * inset), (x, y)


def spread(wanted: Sequence[float], size: float, low: float, high: float) -> list[float]:
    """Centres along one direction, each `size` apart or more, as near to where they want to be as that allows."""
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    blocks: list[tuple[list[int], float]] = []
    for index in order:
        members, centre = [index], min(max(wanted[index], low + size / 2), high - size / 2)
        # a block that would touch the one before joins it; together they stand around their mean
        while blocks and centre - len(members) * size / 2 < blocks[-1][1] + len(blocks[-1][0]) * size / 2:
            before, _ = blocks.pop()
            members = before + members
            half = len(members) * size / 2
            centre = sum(wanted[member] for member in members) / len(members)
            centre = min(max(centre, low + half), high - half)
        blocks.append((members, centre))
    found = [0.0] * len(wanted)
    for members, centre in blocks:
        for place_in, member in enumerate(members):
            found[member] = centre + (place_in - (len(members) - 1) / 2) * size
    return found
