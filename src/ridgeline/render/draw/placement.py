"""Places labels so that none touches another label, a point, a line or the edge of the plot.

Placement is greedy and deterministic: the label in the densest crowd first, each at the cheapest free place; distant
places get a leader line. A label without a free place is not placed, and the drawing reports it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LABEL_GAP = 1.5  # between two labels
LINE_GAP = 0.75  # between a label and a line
CROWD_WIDTH, CROWD_HEIGHT = 60.0, 30.0  # labels this near to each other make a crowd
MIN_LEADER_GAP = 11.0  # a label farther than this from its point gets a leader
LEADER_OVER_LINE, LEADER_OVER_POINT = 12.0, 20.0  # costs: a farther place can be the better one
GAP_COST = 0.6  # per point of distance

# Steps of pi/8 and their cost: right of the point reads best, then above, below and left; then the slanted places.
DIRECTIONS = (
    (0, 0), (1, 1), (-1, 1), (4, 2), (-4, 2), (8, 3), (2, 2), (-2, 2),
    (3, 3), (-3, 3), (6, 4), (-6, 4), (5, 4), (-5, 4), (7, 4), (-7, 4),
)  # fmt: skip
GAPS = (2.0, 7.0, 14.0, 24.0, 38.0, 56.0, 80.0, 110.0)

# Rows of labels beside a crowd: how far the first row is from it, and the steps between the rows and places tried.
ROW_GAP, ROW_STEP, ROWS_TRIED, PLACE_STEP = 20.0, 8.0, 40, 3.0

Segment = tuple[tuple[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Box:
    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def centred(cls, x: float, y: float, width: float, height: float) -> Box:
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def centre(self) -> tuple[float, float]:
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2

    def clipped(self, width: float, height: float) -> Box:
        """The part inside a plot of a given size."""
        x0, x1 = (max(0.0, min(x, width)) for x in (self.x0, self.x1))
        y0, y1 = (max(0.0, min(y, height)) for y in (self.y0, self.y1))
        return Box(x0, y0, x1, y1)

    def overlaps(self, other: Box, gap: float = 0.0) -> bool:
        across = self.x0 < other.x1 + gap and other.x0 < self.x1 + gap
        return across and self.y0 < other.y1 + gap and other.y0 < self.y1 + gap

    def within(self, frame: Box) -> bool:
        return self.x0 >= frame.x0 and self.y0 >= frame.y0 and self.x1 <= frame.x1 and self.y1 <= frame.y1

    def holds(self, x: float, y: float) -> bool:
        return self.x0 < x < self.x1 and self.y0 < y < self.y1

    def crossed_by(self, segment: Segment, gap: float = 0.0) -> bool:
        """Whether a segment passes through (Liang and Barsky's clipping)."""
        (ax, ay), (bx, by) = segment
        dx, dy = bx - ax, by - ay
        start, end = 0.0, 1.0
        across = (-dx, ax - (self.x0 - gap)), (dx, self.x1 + gap - ax)
        for change, room in (*across, (-dy, ay - (self.y0 - gap)), (dy, self.y1 + gap - ay)):
            if change == 0:
                if room <= 0:
                    return False
            elif change < 0:
                start = max(start, room / change)
            else:
                end = min(end, room / change)
        return start < end


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


def segments_cross(first: Segment, second: Segment) -> bool:
    """Whether two segments cross; touching at an end does not count."""

    def side(segment: Segment, x: float, y: float) -> float:
        (ax, ay), (bx, by) = segment
        return (bx - ax) * (y - ay) - (by - ay) * (x - ax)

    return (
        side(first, *second[0]) * side(first, *second[1]) < 0 and side(second, *first[0]) * side(second, *first[1]) < 0
    )


def distance(segment: Segment, x: float, y: float) -> float:
    """From a segment to the point (x, y)."""
    (ax, ay), (bx, by) = segment
    squared = (bx - ax) ** 2 + (by - ay) ** 2
    part = 0.0 if squared == 0 else max(0.0, min(1.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / squared))
    return math.hypot(x - ax - part * (bx - ax), y - ay - part * (by - ay))


@dataclass(frozen=True)
class Anchor:
    """A label of a given size that belongs to the point (x, y); `radius` is the extent of the point's marker."""

    x: float
    y: float
    width: float
    height: float
    radius: float = 4.0


@dataclass(frozen=True)
class Placed:
    box: Box
    leader: Segment | None = None


@dataclass
class Obstacles:
    """What a label must not touch: markers, lines and other texts."""

    discs: list[Disc] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)

    def near(self, area: Box) -> Obstacles:
        """Those within an area, so that the others are not looked at again for every place in it."""
        return Obstacles(
            [disc for disc in self.discs if disc.touches(area)],
            [segment for segment in self.segments if area.crossed_by(segment, LABEL_GAP)],
            [box for box in self.boxes if box.overlaps(area, LABEL_GAP)],
        )

    def leave_free(self, box: Box, label_gap: float = LABEL_GAP, line_gap: float = LINE_GAP) -> bool:
        return (
            not any(box.overlaps(other, label_gap) for other in self.boxes)
            and not any(disc.touches(box) for disc in self.discs)
            and not any(box.crossed_by(segment, line_gap) for segment in self.segments)
        )


def place(labels: Sequence[Anchor], frame: Box, obstacles: Obstacles, max_gap: float = GAPS[-1]) -> list[Placed | None]:
    """A place for every label at most `max_gap` from its point, or None where there is none that touches nothing."""

    def crowd(label: Anchor) -> int:
        near = CROWD_WIDTH + label.width / 2
        return sum(abs(label.x - other.x) < near and abs(label.y - other.y) < CROWD_HEIGHT for other in labels)

    crowds = [crowd(label) for label in labels]
    occupied = Obstacles(list(obstacles.discs), list(obstacles.segments), list(obstacles.boxes))
    places: list[Placed | None] = [None] * len(labels)
    for index in sorted(range(len(labels)), key=lambda index: (-crowds[index], index)):
        placed = places[index] = _cheapest(labels[index], frame, occupied, max_gap)
        if placed is not None:
            occupied.boxes.append(placed.box)
            if placed.leader is not None:
                occupied.segments.append(placed.leader)
    return places


def _cheapest(label: Anchor, frame: Box, occupied: Obstacles, max_gap: float) -> Placed | None:
    reach = label.radius + GAPS[-1]
    near = occupied.near(Box.centred(label.x, label.y, 2 * (reach + label.width), 2 * (reach + label.height)))
    best, best_cost = None, math.inf
    for cost, gap, box in _candidates(label):
        if cost >= best_cost:
            break
        if gap > max_gap:
            continue
        if not box.within(frame) or not near.leave_free(box):
            continue
        leader = _leader(label, box) if gap > MIN_LEADER_GAP else None
        if leader is not None:
            if any(other.crossed_by(leader) for other in near.boxes):
                continue
            others = [disc for disc in near.discs if (disc.x, disc.y) != (label.x, label.y)]
            cost += LEADER_OVER_LINE * sum(segments_cross(leader, segment) for segment in near.segments)
            cost += LEADER_OVER_POINT * sum(distance(leader, disc.x, disc.y) < disc.radius for disc in others)
        if cost < best_cost:
            best, best_cost = Placed(box, leader), cost
    return best


def _candidates(label: Anchor) -> list[tuple[float, float, Box]]:
    """Cost, distance from the point and box of every place that is tried, cheapest first."""
    candidates = []
    for gap in GAPS:
        for steps, cost in DIRECTIONS:
            ux, uy = math.cos(steps * math.pi / 8), math.sin(steps * math.pi / 8)
            x = label.x + ux * (label.radius + gap) + max(-1.0, min(1.0, 1.7 * ux)) * label.width / 2
            y = label.y + uy * (label.radius + gap) + max(-1.0, min(1.0, 1.7 * uy)) * label.height / 2
            candidates.append((cost + gap * GAP_COST, gap, Box.centred(x, y, label.width, label.height)))
    return sorted(candidates, key=lambda candidate: candidate[0])


def place_in_rows(labels: Sequence[Anchor], frame: Box, obstacles: Obstacles) -> list[Placed] | None:
    """Small labels of a crowd in a row beside it, in the order of their points, each with a leader; None without room.

    Keeping the order keeps leaders from crossing. One row is tried first, near the crowd, below or above it; then every
    other label goes below and the rest above.
    """
    if not labels:
        return []
    order = sorted(range(len(labels)), key=lambda index: (labels[index].x, labels[index].y, index))
    half = max(label.height for label in labels) / 2
    bottom, top = min(label.y - label.radius for label in labels), max(label.y + label.radius for label in labels)
    below = [bottom - ROW_GAP - half - ROW_STEP * step for step in range(ROWS_TRIED)]
    above = [top + ROW_GAP + half + ROW_STEP * step for step in range(ROWS_TRIED)]
    either = [y for pair in zip(below, above, strict=True) for y in pair]
    for plan in ([(order, either)], [(order[::2], below), (order[1::2], above)]):
        places: dict[int, Placed] = {}
        for members, heights in plan:
            boxes = [*obstacles.boxes, *(placed.box for placed in places.values())]
            row = _row(labels, members, heights, frame, Obstacles(obstacles.discs, obstacles.segments, boxes))
            if row is None:
                break
            places |= row
        if len(places) == len(labels):
            return [places[index] for index in range(len(labels))]
    return None


def _row(
    labels: Sequence[Anchor], members: Sequence[int], heights: Sequence[float], frame: Box, obstacles: Obstacles
) -> dict[int, Placed] | None:
    """The members in one row, at the first of the heights with enough room."""
    wide, high = max(labels[index].width for index in members), max(labels[index].height for index in members)
    steps = range(int((frame.x1 - frame.x0 - wide) / PLACE_STEP) + 1)
    for y in heights:
        band = Box(frame.x0, y - high / 2, frame.x1, y + high / 2)
        if not band.within(frame):
            continue
        near = obstacles.near(band)
        candidates = [frame.x0 + wide / 2 + PLACE_STEP * step for step in steps]
        free = [x for x in candidates if near.leave_free(Box.centred(x, y, wide, high))]
        centres = _ascending([labels[index].x for index in members], free, wide + PLACE_STEP)
        if centres is None:
            continue
        places = {}
        for index, x in zip(members, centres, strict=True):
            box = Box.centred(x, y, labels[index].width, high)
            places[index] = Placed(box, _leader(labels[index], box))
        leaders = [placed.leader for placed in places.values() if placed.leader is not None]
        if not any(box.crossed_by(leader) for leader in leaders for box in obstacles.boxes):
            return places
    return None


def _ascending(targets: Sequence[float], candidates: Sequence[float], pitch: float) -> list[float] | None:
    """One candidate per target, ascending and `pitch` apart, nearest in total; None when they do not all fit."""
    costs = [0.0] * (len(candidates) + 1)  # of the targets so far, among the first k candidates
    choices: list[list[int]] = []
    # how many candidates lie at least `pitch` before each of them
    before = [sum(other <= candidate - pitch + 1e-9 for other in candidates) for candidate in candidates]
    for target in targets:
        row, choice = [math.inf], [-1]
        for index, candidate in enumerate(candidates):
            cost = costs[before[index]] + abs(candidate - target)
            better = cost < row[-1]
            row.append(cost if better else row[-1])
            choice.append(index if better else choice[-1])
        costs = row
        choices.append(choice)
    if not candidates or costs[-1] == math.inf:
        return None
    chosen, limit = [], len(candidates)
    for choice in reversed(choices):
        index = choice[limit]
        chosen.append(candidates[index])
        limit = before[index]
    return chosen[::-1]


def _leader(label: Anchor, box: Box) -> Segment:
    """From the edge of the marker to the nearest point of the box."""
    x, y = min(max(label.x, box.x0), box.x1), min(max(label.y, box.y0), box.y1)
    length = math.hypot(x - label.x, y - label.y) or 1.0
    inset = min(label.radius, length) / length
    return (label.x + (x - label.x) * inset, label.y + (y - label.y) * inset), (x, y)


def spread(targets: Sequence[float], pitch: float, low: float, high: float) -> list[float]:
    """Centres at least `pitch` apart between `low` and `high`, as near to their targets as that allows."""
    blocks: list[tuple[list[int], float]] = []
    for index in sorted(range(len(targets)), key=lambda index: (targets[index], index)):
        members, centre = [index], min(max(targets[index], low + pitch / 2), high - pitch / 2)
        # a block that would touch the previous one joins it; together they are centred on their mean
        while blocks and centre - len(members) * pitch / 2 < blocks[-1][1] + len(blocks[-1][0]) * pitch / 2:
            members = blocks.pop()[0] + members
            half = len(members) * pitch / 2
            centre = min(max(sum(targets[member] for member in members) / len(members), low + half), high - half)
        blocks.append((members, centre))
    centres = [0.0] * len(targets)
    for members, centre in blocks:
        for rank, member in enumerate(members):
            centres[member] = centre + (rank - (len(members) - 1) / 2) * pitch
    return centres
