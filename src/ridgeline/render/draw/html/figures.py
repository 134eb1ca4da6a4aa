"""Charts as inline SVG in the colours of the page, and the facts behind every dot for the page's card."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....core.units import percent, show
from ...chart import Axis, Chart, Picture, Point
from ...table import Table, columns
from .. import mpl
from ..labels import tick_text
from ..themes import palette_of
from .tables import key_of

MIN_TEXT = 11.0  # pixels; a chart gets no narrower than its smallest text allows
SHORT_LABELS = {"arithmetic intensity": "AI", "performance": "rate"}
UNITS = {
    "flops": "flop",
    "bytes": "B",
    "bandwidth": "B/s",
    "peak": "flop/s",
    "roof": "B/s",
    "time": "s",
    "joules": "J",
    "intensity": "FLOP/B",
}
SHARES = ("memory", "efficiency", "communication")  # that JSON has as fractions
NAMES = {
    "ttft": "TTFT", "tpot": "TPOT", "tokens_per_s": "tok/s", "tokens_per_s_per_device": "tok/s per device", "joules": "energy",
    "cost_per_million": "per 1M tokens",
}  # fmt: skip
MAX_FACTS = 8


def themed(svg: str) -> str:
    """SVG drawn in the light theme with its colours turned into the page's variables."""
    variables = {value: f"var(--rl-{role})" for role, value in palette_of("light").items()}
    body = svg[svg.index("<svg") :]
    return in_tags(body, r"#[0-9a-f]{6}\b", lambda colour: variables.get(colour[0], colour[0]))


def in_tags(svg: str, pattern: str, form: str | Callable[[re.Match[str]], str]) -> str:
    """Replaces what fits in the tags only: a text that looks the same is left alone."""
    return re.sub(r"<[a-z][^>]*>", lambda tag: re.sub(pattern, form, tag[0]), svg)


def figure(picture: Picture, prefix: str = "") -> str:
    """The picture as a <figure> for a page that carries `variables`."""
    svg = themed(mpl.svg(picture, "light", prefix))
    svg = in_tags(svg, r' id="[a-z0-9.]+_\d+"', "")  # counted by matplotlib, so the same in every picture
    return f'<figure class="ridgeline" style="--min-width: {_min_width(svg)}px">\n{svg}</figure>'


def _min_width(svg: str) -> int:
    """The width in pixels at which the smallest text of a picture has its least size."""
    width = re.search(r'viewBox="0 0 ([\d.]+)', svg)
    sizes = [float(size) for size in re.findall(r"<[a-z][^>]*font-size: ([\d.]+)px", svg)]
    return math.ceil(float(width[1]) * MIN_TEXT / min(sizes)) if width and sizes else 0


def dots(picture: Picture, prefix: str = "") -> dict[str, Any]:
    """By id of a dot: the key of its row, its name, where it is, and what else is known."""
    return {
        f"{prefix}c{number}-point-{point.role}-{index}": {
            "key": key_of(point),
            "name": key_of(point) if point.role == "floor" else point.name or point.label or point.group or "point",
            "at": [[label, text] for label, text in _place(chart, point)],
            "facts": [[label, text] for label, text in facts(point.details)][:MAX_FACTS],
        }
        for number, chart in enumerate(picture.charts)
        for index, point in enumerate(chart.points)
    }


def points_tables(picture: Picture) -> list[Table]:
    """The dots of a picture, one a row, where each has a name that no other has."""
    rows = []
    for chart in picture.charts:
        for point in chart.points:
            if point.role not in ("floor", "ridge"):
                at = dict(_place(chart, point))
                more = {label: text for label, text in facts(point.details) if text not in at.values()}
                rows.append({"name": key_of(point), **at, **more})
    if not rows or len({row["name"] for row in rows} - {""}) < len(rows):
        return []
    return [Table("", columns(*dict.fromkeys(key for row in rows for key in row)), rows)]


def _place(chart: Chart, point: Point) -> Iterator[tuple[str, str]]:
    yield _label(chart.x), _amount(point.x, chart.x)
    if chart.y.shown:
        yield "attainable rate" if point.role == "floor" else _label(chart.y), _amount(point.y, chart.y)


def _label(axis: Axis) -> str:
    name = axis.label
    for long, short in SHORT_LABELS.items():
        name = name.replace(long, short)
    return name or "value"


def _amount(value: float, axis: Axis) -> str:
    if axis.unit in ("FLOP/byte", "FLOP/B"):
        return show(value, "FLOP/B", 3)
    return tick_text(value, axis.unit) if axis.unit in ("", "%", "year") else show(value, axis.unit, 3)


def facts(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Times, share of the roofline and bound by the names they have in JSON, then whatever else a point carries."""
    rest = {key: value for key, value in details.items() if value is not None}
    measured, low, high, floor = (rest.pop(key, None) for key in ("measured_us", "low_us", "high_us", "floor_us"))
    predicted = rest.pop("predicted_us", rest.pop("time_us", None))
    bound, limiter, share = (rest.pop(key, None) for key in ("bound", "limiter", "share_of_roofline"))
    if measured is not None:
        yield "measured", _time(measured)
    if predicted is not None:
        interval = f" [{_time(low)}, {_time(high)}]" if low is not None and high is not None else ""
        yield "predicted" + (" [80 %]" if interval else ""), _time(predicted) + interval
    time = measured or predicted
    if floor is not None:  # kernels that need fewer products than the work counts have a floor below it
        yield "roofline time", _time(share * time if share is not None and time else floor)
    if share is None and floor is not None and time:
        share = floor / time
    if share is not None:
        yield "% of roofline", percent(share, 3)
    if bound:
        yield "bound", f"{bound} ({limiter})" if limiter else str(bound)
    for key, value in rest.items():
        if isinstance(value, str | int | float) and value != "":
            name = key.removesuffix("_us").removesuffix("_ms")
            yield NAMES.get(name, name.replace("_", " ")), _fact(key, value)


def _fact(key: str, value: str | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if key.endswith(("_us", "_ms")):
        return _time(value * (1 if key.endswith("_us") else 1e3))
    return percent(value, 3) if key in SHARES else show(value, UNITS.get(key, ""), 3)


def _time(microseconds: float) -> str:
    return show(microseconds / 1e6, "s", 3)
