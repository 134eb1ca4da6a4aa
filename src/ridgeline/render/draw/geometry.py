"""Boxes, discs and segments in the plane, as far as label placement needs them."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
