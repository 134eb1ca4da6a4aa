"""Chart: the neutral description of a picture (axes, lines, points, bars, marks) and the data behind it.

Whoever builds one does no drawing, whoever draws one does no physics. Values are in base units; `document` gives
plain values for JSON, `rows` the table behind the picture, `read` makes a chart of a document again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..core.errors import InputError

SCHEMA = "ridgeline.chart/1"
LOG, LINEAR = "log", "linear"

# roles a drawing tells apart; others are drawn plainly
LINE_ROLES = ("bandwidth", "peak", "guide", "series", "target")
POINT_ROLES = ("expected", "overhead", "floor", "observed", "target", "ridge", "value")
BAR_ROLES = ("value", "measured", "loss", "unexplained")


@dataclass(frozen=True)
class Axis:
    """One axis; an axis that is not `shown` only spreads things out (the scale has no second dimension)."""

    label: str
    unit: str = ""
    scale: str = LINEAR
    range: tuple[float, float] = (0.0, 1.0)
    shown: bool = True

    def __post_init__(self) -> None:
        first, last = self.range
        if not (math.isfinite(first) and math.isfinite(last) and first < last):
            raise InputError(f"axis '{self.label}' needs a finite range that grows, got {first} to {last}")
        if self.scale not in (LOG, LINEAR):
            raise InputError(f"axis '{self.label}': the scale is log or linear, got '{self.scale}'")
        if self.scale == LOG and first <= 0:
            raise InputError(f"axis '{self.label}' is logarithmic and cannot start at {first}")

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit not in ("", "year") else self.label


@dataclass(frozen=True)
class Line:
    points: tuple[tuple[float, float], ...]
    role: str = "series"
    label: str = ""
    group: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    label: str = ""
    group: str = ""
    role: str = "expected"
    name: str = ""  # the whole name where the label is a shortened one
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bar:
    """A horizontal bar from `start` to `value`; `text` stands at its end, `label` at its foot."""

    label: str
    value: float
    start: float | None = None
    text: str = ""
    group: str = ""
    role: str = "value"
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Region:
    """A part of the plane with a caption; a span that is None runs over the whole axis."""

    label: str
    x: tuple[float, float] | None = None
    y: tuple[float, float] | None = None
    role: str = ""


@dataclass(frozen=True)
class Mark:
    """A reference line across the chart at one value of an axis; its label goes into the legend."""

    axis: str
    value: float
    label: str = ""
    role: str = "ridge"
    group: str = ""


@dataclass(frozen=True)
class Arrow:
    start: tuple[float, float]
    end: tuple[float, float]
    label: str = ""
    role: str = "change"
    group: str = ""


@dataclass(frozen=True)
class Chart:
    kind: str
    title: str
    x: Axis
    y: Axis
    subtitle: str = ""
    lines: tuple[Line, ...] = ()
    points: tuple[Point, ...] = ()
    bars: tuple[Bar, ...] = ()
    regions: tuple[Region, ...] = ()
    marks: tuple[Mark, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[str, ...] = ()
    unplaced: tuple[Mapping[str, Any], ...] = ()  # what the axes cannot show (no flops, so no place on a log axis)
    look: str = "plane"  # plane, bars or pyramid

    @property
    def charts(self) -> tuple[Chart, ...]:
        return (self,)

    def groups(self) -> list[str]:
        """Groups in order of appearance; colours follow this order."""
        every = [
            item.group for items in (self.lines, self.points, self.bars, self.marks, self.arrows) for item in items
        ]
        return list(dict.fromkeys(group for group in every if group))

    def document(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **_plain_fields(self)}

    def rows(self) -> list[dict[str, Any]]:
        """The data behind the picture: one row per vertex, point, bar, mark and arrow."""
        found: list[dict[str, Any]] = []
        for line in self.lines:
            found += [_row("line", line.label, line.group, line.role, x=x, y=y, **line.details) for x, y in line.points]
        for point in self.points:
            found.append(
                _row("point", point.name or point.label, point.group, point.role, x=point.x, y=point.y, **point.details)
            )
        for bar in self.bars:
            found.append(
                _row(
                    "bar",
                    bar.label,
                    bar.group,
                    bar.role,
                    start=bar.start,
                    value=bar.value,
                    text=bar.text,
                    **bar.details,
                )
            )
        for mark in self.marks:
            found.append(_row("mark", mark.label, mark.group, mark.role, **{mark.axis: mark.value}))
        for arrow in self.arrows:
            found.append(
                _row(
                    "arrow",
                    arrow.label,
                    arrow.group,
                    arrow.role,
                    x=arrow.start[0],
                    y=arrow.start[1],
                    x_end=arrow.end[0],
                    y_end=arrow.end[1],
                )
            )
        found += [_row("unplaced", **{str(key): value for key, value in row.items()}) for row in self.unplaced]
        return found

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and rows of plain values; None where a row has nothing to say."""
        return tabulate(self.rows())


@dataclass(frozen=True)
class Panel:
    """Several charts side by side under one title."""

    title: str
    charts: tuple[Chart, ...]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    kind: str = "panel"

    def groups(self) -> list[str]:
        return list(dict.fromkeys(group for chart in self.charts for group in chart.groups()))

    def document(self) -> dict[str, Any]:
        head = {
            "schema": SCHEMA,
            "kind": self.kind,
            "title": self.title,
            "subtitle": self.subtitle,
            "notes": list(self.notes),
        }
        return {**head, "charts": [chart.document() for chart in self.charts]}

    def rows(self) -> list[dict[str, Any]]:
        return [{"panel": chart.title, **row} for chart in self.charts for row in chart.rows()]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        return tabulate(self.rows())


Picture = Chart | Panel


def tabulate(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return columns, [[plain(row.get(column)) for column in columns] for row in rows]


def _row(what: str, label: str = "", group: str = "", role: str = "", **values: Any) -> dict[str, Any]:
    texts = {"what": what, "label": label, "group": group, "role": role}
    return {key: text for key, text in texts.items() if text} | {
        key: value for key, value in values.items() if value is not None
    }


def plain(value: Any) -> Any:
    """A value JSON knows: numpy scalars unpacked, infinities and NaN as None."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item() if getattr(value, "ndim", 0) == 0 else value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | bool):
        return value
    if hasattr(value, "__dataclass_fields__"):
        return _plain_fields(value)
    return str(value)


def _plain_fields(item: Any) -> dict[str, Any]:
    return {each.name: plain(getattr(item, each.name)) for each in fields(item)}


def _pair(values: Iterable[float] | None) -> tuple[float, float] | None:
    if values is None:
        return None
    first, second = values
    return float(first), float(second)


def read(document: Mapping[str, Any]) -> Picture:
    """The chart a document describes; one from a newer ridgeline is refused."""
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"this is not a chart this ridgeline can read: schema is {document.get('schema')!r}, known is '{SCHEMA}'"
        )
    if "charts" in document:
        charts = tuple(each for each in (read(item) for item in document["charts"]) if isinstance(each, Chart))
        return Panel(
            document["title"],
            charts,
            document.get("subtitle", ""),
            tuple(document.get("notes", ())),
            document.get("kind", "panel"),
        )
    rest = {key: value for key, value in document.items() if key != "schema"}
    for name in ("x", "y"):
        rest[name] = Axis(**{**rest[name], "range": _pair(rest[name]["range"])})
    rest["lines"] = tuple(
        Line(**{**item, "points": tuple((x, y) for x, y in item["points"])}) for item in rest.get("lines", ())
    )
    rest["points"] = tuple(Point(**item) for item in rest.get("points", ()))
    rest["bars"] = tuple(Bar(**item) for item in rest.get("bars", ()))
    rest["regions"] = tuple(
        Region(**{**item, "x": _pair(item["x"]), "y": _pair(item["y"])}) for item in rest.get("regions", ())
    )
    rest["marks"] = tuple(Mark(**item) for item in rest.get("marks", ()))
    rest["arrows"] = tuple(
        Arrow(**{**item, "start": _pair(item["start"]), "end": _pair(item["end"])}) for item in rest.get("arrows", ())
    )
    rest["notes"] = tuple(rest.get("notes", ()))
    rest["unplaced"] = tuple(rest.get("unplaced", ()))
    return Chart(**rest)
