"""Gap cards: both gaps of a kernel, its time by cause, and the moves with their price, from the document of an item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....core.documents import to_document
from ....core.errors import InputError
from ....core.machine import Machine
from ....core.units import percent, show
from ....gaps.regime import unit_name
from ....render.charts.gaps import Landed, waterfall
from ....render.charts.kernels import Destination, moves_chart
from ....render.charts.wording import bound_title, times
from ....render.draw.labels import shorten
from .pictures import pictured

Item = Mapping[str, Any]
NAME_IT = "name its NVTX range after the op, such as `gemm m=4096 n=4096 k=4096`"
NOT_KNOWN = "not known"


def gap_card(machine: Machine | None, item: Item, landed: Landed | None, more: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:  # fmt: skip
    """The card of an item, whose document has the names of `ridgeline reconcile --json`; `more` are further facts."""
    advice = item.get("advice") or ()
    ends = [(move, end) for move in advice if (end := move.get("end"))]
    destinations = [Destination(str(move["move"]), (end["intensity"], end["rate"])) for move, end in ends]
    numbers = {id(move): number for number, (move, _) in enumerate(ends, 1)}
    chart = None
    if machine is not None and landed is not None:
        try:
            chart = moves_chart(machine, landed, destinations)
        except InputError:
            chart = None  # the machine has no ceiling that the kernel is held against
    return {
        "name": item["name"],
        "sentence": item.get("sentence") or "",
        "facts": [list(pair) for pair in (*_facts(item), *more)],
        "gaps": [_vertical(item), _horizontal(item)],
        "waterfall": _waterfall(item),
        "chart": None if chart is None else pictured(chart),
        "arrows": [] if chart is None else to_document(chart.arrows),
        "moves": [_move(item, move, numbers.get(id(move)) if chart is not None else None) for move in advice],
        "findings": list(item.get("findings") or ()),
    }


def _facts(item: Item) -> list[tuple[str, str]]:
    """Times, bound and intensity in the order people ask for them; what is not known is left out."""
    bound, limiter = item.get("bound_observed"), item.get("limiter_observed")
    low, high = item.get("low_us"), item.get("high_us")
    interval = "" if low is None or high is None else f" [{_time(low)}, {_time(high)}]"
    rows = [
        ("measured", _known(item.get("measured_us"), _time)),
        ("roofline time", _known(item.get("floor_us"), _time)),
        ("% of roofline", _known(item.get("share_of_roofline"), percent)),
        ("expected" + (" [80 %]" if interval else ""), _known(item.get("predicted_us"), _time, interval)),
        ("bound", f"{bound_title(bound)}{f' ({unit_name(limiter)})' if limiter else ''}" if bound else ""),
        ("AI, counted", _known(item.get("intensity_observed"), lambda value: show(value, "FLOP/B"))),
        ("AI, algorithmic", _known(item.get("intensity_algorithmic"), lambda value: show(value, "FLOP/B"))),
        ("calls", show(item["count"], "") if (item.get("count") or 1.0) != 1.0 else ""),
    ]
    return [(label, text) for label, text in rows if text]


def _known(value: float | None, form: Any, rest: str = "") -> str:
    return "" if value is None else f"{form(value)}{rest}"


def _time(microseconds: float) -> str:
    return show(microseconds / 1e6, "s", 3)


def _vertical(item: Item) -> dict[str, Any]:
    gap, total = item.get("vertical_gap"), item.get("over_floor")
    if gap is not None:
        words = (
            "the roof at the counted intensity over the achieved rate: what better use of the limiting unit would bring"
        )
        return {"title": "vertical gap", "value": times(gap), "words": words, "factors": []}
    over = "" if total is None else f"; the time is {times(total)} the roofline time of the algorithm"
    words = f"needs counted FLOPs and bytes, which Nsight Compute records{over}"
    return {"title": "vertical gap", "value": NOT_KNOWN, "words": words, "factors": []}


def _horizontal(item: Item) -> dict[str, Any]:
    """Algorithmic over observed intensity, as its two factors: more bytes, and FLOPs, of which more hide it."""
    gap, moved, flops = (item.get(name) for name in ("horizontal_gap", "excess_bytes", "excess_flops"))
    factors = [] if moved is None else [["counted / algorithmic bytes", times(moved)]]
    factors += [["algorithmic / counted FLOPs", times(1 / flops)]] if flops else []
    words = "algorithmic over counted intensity: what moving only the compulsory bytes would bring"
    if gap is None:
        counted = item.get("intensity_observed") is not None
        words = f"needs the op, whose bytes it compares with: {NAME_IT}" if counted else "needs counted bytes and FLOPs"
    return {
        "title": "horizontal gap", "value": NOT_KNOWN if gap is None else times(gap), "words": words, "factors": factors
    }  # fmt: skip


def _waterfall(item: Item) -> dict[str, Any] | None:
    entries = [(str(entry["cause"]), entry["us"] / 1e6) for entry in item.get("accounting") or ()]
    if not entries:
        return None
    share = item.get("share_of_roofline")
    subtitle = f"{percent(share)} of roofline" if share is not None else "measured"
    return pictured(waterfall(f"Where the time of {shorten(str(item['name']))} goes", subtitle, entries, item["measured_us"] / 1e6))  # fmt: skip


def _move(item: Item, move: Mapping[str, Any], number: int | None) -> dict[str, Any]:
    """A move with its price per call; `number` is that of its arrow."""
    gain, time = move.get("gain_us"), item["measured_us"]
    price = (
        "gain not known" if gain is None else f"saves {'' if move.get('status') == 'shown' else 'up to '}{_time(gain)}"
    )
    share = "" if gain is None else f" of {_time(time)} ({percent(gain / time)})"
    return {
        "number": number, "move": move["move"], "cause": move.get("cause") or "", "status": move.get("status") or "",
        "gain": f"{price}{share}", "evidence": list(move.get("evidence") or ()), "changes": move.get("changes") or "",
        "limit": move.get("limit") or "", "missing": list(move.get("missing") or ()),
    }  # fmt: skip
