"""Chart: the neutral description of a picture (axes, lines, points, bars, marks) and the data behind it.

Whoever builds one does no drawing, whoever draws one does no physics. Values are in base units; `document` gives
plain values for JSON, `rows` the table behind the picture, `read` makes a chart of a document again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.documents import to_document
from ..core.errors import InputError
from ..core.intake.text import clean

SCHEMA = "ridgeline.chart/1"
LOG, LINEAR = "log", "linear"
INTENSITY_UNIT = "FLOP/B"
ROOFLINE_UNITS = ("FLOP/s", "OP/s", "FLOP/J")


class CleanText:
    """What is drawn has clean text, wherever its names come from: a control character would spoil the file."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, str) and not value.isprintable():
                object.__setattr__(self, name, clean(value))
        notes = vars(self).get("notes", ())
        if not all(note.isprintable() for note in notes):
            object.__setattr__(self, "notes", tuple(map(clean, notes)))


@dataclass(frozen=True)
class Axis(CleanText):
    """One axis; an axis that is not `shown` only spreads things out (the scale has no second dimension)."""

    label: str
    unit: str = ""
    scale: str = LINEAR
    range: tuple[float, float] = (0.0, 1.0)
    shown: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
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


NO_AXIS = Axis("", shown=False)


@dataclass(frozen=True)
class Line(CleanText):
    points: tuple[tuple[float, float], ...]
    role: str = "series"  # bandwidth, peak, guide, series, target, area (down to 0); others are drawn plainly
    label: str = ""
    group: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Point(CleanText):
    x: float
    y: float
    label: str = ""
    group: str = ""
    role: str = "expected"  # expected, overhead, floor, observed, target, ridge, value
    name: str = ""  # the complete name where the label is a shortened one
    details: Mapping[str, Any] = field(default_factory=dict)
    share: float | None = None  # of the time: the area of the dot
    key: str = ""  # the name of its row in a table, where that is not its own name

    @property
    def spot(self) -> tuple[float, float]:
        return self.x, self.y


@dataclass(frozen=True)
class Bar(CleanText):
    """A horizontal bar from `start` to `value`, with `label` on its left and `text` at its end; in an icicle both inside."""

    label: str
    value: float
    start: float | None = None
    text: str = ""
    group: str = ""
    role: str = "value"  # value, measured, loss, unexplained
    details: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0  # row of an icicle, from the top


@dataclass(frozen=True)
class Region(CleanText):
    """A part of the plane with a caption; a span that is None covers the complete axis."""

    label: str
    x: tuple[float, float] | None = None
    y: tuple[float, float] | None = None
    role: str = ""


@dataclass(frozen=True)
class Mark(CleanText):
    """A reference line across the chart at one value of an axis; its label goes into the legend."""

    axis: str
    value: float
    label: str = ""
    role: str = "ridge"
    group: str = ""


@dataclass(frozen=True)
class Arrow(CleanText):
    start: tuple[float, float]
    end: tuple[float, float]
    label: str = ""
    role: str = "change"
    group: str = ""


Item = Line | Point | Bar | Mark | Arrow


@dataclass(frozen=True)
class Chart(CleanText):
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
    look: str = "plane"  # plane, bars, pyramid or icicle
    schema: ClassVar = SCHEMA
    DOCUMENT: ClassVar = (
        "schema", "kind", "title", "x", "y", "subtitle", "lines", "points", "bars", "regions", "marks", "arrows", "notes",
        "unplaced", "look",
    )  # fmt: skip

    @property
    def charts(self) -> tuple[Chart, ...]:
        return (self,)

    @property
    def shape(self) -> tuple[int, int]:
        return 1, 1

    @property
    def equal_decades(self) -> bool:
        """Whether a decade is as long in x as in y, so that every memory roof rises at 45 degrees."""
        logarithmic = self.look == "plane" and self.x.scale == self.y.scale == LOG
        return logarithmic and self.x.unit == INTENSITY_UNIT and self.y.unit in ROOFLINE_UNITS

    def groups(self) -> list[str]:
        """Groups in order of appearance."""
        items: tuple[Item, ...] = (*self.lines, *self.points, *self.bars, *self.marks, *self.arrows)
        return list(dict.fromkeys(item.group for item in items if item.group))

    def rows(self) -> list[dict[str, Any]]:
        """The data behind the picture: one row per vertex, point, bar, mark and arrow."""
        rows = [_row("line", line, {"x": x, "y": y, **line.details}) for line in self.lines for x, y in line.points]
        for point in self.points:
            rows.append(_row("point", point, {"x": point.x, "y": point.y, **point.details}, point.name))
        for bar in self.bars:
            rows.append(
                _row(
                    "bar",
                    bar,
                    {
                        "start": bar.start,
                        "value": bar.value,
                        "text": bar.text,
                        "depth": bar.depth or None,
                        **bar.details,
                    },
                )
            )
        rows += [_row("mark", mark, {mark.axis: mark.value}) for mark in self.marks]
        for arrow in self.arrows:
            (x, y), (x_end, y_end) = arrow.start, arrow.end
            rows.append(_row("arrow", arrow, {"x": x, "y": y, "x_end": x_end, "y_end": y_end}))
        return rows + [{"what": "unplaced", **_known(row)} for row in self.unplaced]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Column names and rows of plain values; None where a row has nothing to say."""
        return tabulate(self.rows())


@dataclass(frozen=True)
class Panel(CleanText):
    """Several charts under one title, so many in a row; 0: all side by side."""

    title: str
    charts: tuple[Chart, ...]
    subtitle: str = ""
    notes: tuple[str, ...] = ()
    kind: str = "panel"
    columns: int = 0
    schema: ClassVar = SCHEMA
    DOCUMENT: ClassVar = ("schema", "kind", "title", "subtitle", "notes", "columns", "charts")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns that the charts fill."""
        columns = min(self.columns or len(self.charts), len(self.charts))
        return math.ceil(len(self.charts) / columns), columns

    def groups(self) -> list[str]:
        return list(dict.fromkeys(group for chart in self.charts for group in chart.groups()))

    def rows(self) -> list[dict[str, Any]]:
        return [{"panel": chart.title, **row} for chart in self.charts for row in chart.rows()]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        return tabulate(self.rows())


Picture = Chart | Panel
PARTS: dict[str, Any] = {"lines": Line, "points": Point, "bars": Bar, "regions": Region, "marks": Mark, "arrows": Arrow}


def document(picture: Picture) -> Any:
    """Plain values for JSON, which has no infinity and no NaN: both become null."""
    return finite(to_document(picture))


def finite(value: Any) -> Any:
    """A document without infinity and NaN, which JSON does not have: both become null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tabulate(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return columns, [[finite(to_document(row.get(column))) for column in columns] for row in rows]


def _row(what: str, item: Item, values: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    texts = {"what": what, "label": name or item.label, "group": item.group, "role": item.role}
    return {key: text for key, text in texts.items() if text} | _known(values)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in values.items() if value is not None}


def _tuples(value: Any) -> Any:
    """The value with tuples for lists, which charts are made of."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def read(source: Mapping[str, Any]) -> Picture:
    """The chart a document describes; one from a newer ridgeline is refused."""
    if source.get("schema") != SCHEMA:
        raise InputError(
            f"this is not a chart this ridgeline can read: schema is {source.get('schema')!r}, known is '{SCHEMA}'"
        )
    values = _tuples({key: value for key, value in source.items() if key != "schema"})
    if "charts" in values:
        charts = (read(chart) for chart in values["charts"])
        return Panel(**{**values, "charts": tuple(chart for chart in charts if isinstance(chart, Chart))})
    parts = {key: tuple(kind(**item) for item in values.get(key, ())) for key, kind in PARTS.items()}
    return Chart(**{**values, **parts, "x": Axis(**values["x"]), "y": Axis(**values["y"])})


def step_sizes(chart: Chart) -> list[float]:
    """The capacities that the steps of a pyramid are drawn with: one that is not known is not below those inside it."""
    sizes: list[float] = []
    for bar in chart.bars:
        sizes.append(bar.value if bar.value > 0 else max([chart.x.range[0], *sizes]))  # NaN where it is not known
    return sizes
