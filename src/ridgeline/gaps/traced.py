"""Seal the prediction of a traced program, settle it with a profile of the real run: call by call, and as a whole.

A sealed row is an operator with its shapes in one phase: `addmm 256x1024·1024x4096 bf16, forward`, the name that a program
report gives to its groups. A group of the profile is joined to the row of its name; where a call has another name on the
device (`aten::cudnn_convolution` for `aten::convolution`), to the row of equal work in the same phase. Attention is joined by
the shape of its queries where its mask is described in another way. Times are of one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..core.errors import InputError
from ..core.timeline import Timeline
from ..core.work import Work
from ..machines import write as save
from ..prediction.traced import OpTime, ProgramPrediction
from .ledger import Broken, Ledger, Sealed, Settled
from .settle import measured_at
from .steps.groups import call_name
from .steps.items import OpItem
from .steps.report import ProgramReport

STEP = "step: device time"
BY_NAME, BY_WORK, BY_SHAPE = "name", "work", "shape"


def rows_of(program: ProgramPrediction) -> list[dict[str, Any]]:
    """What is sealed: the device time of a step, then every operator with its shapes, by time."""
    groups: dict[str, list[OpTime]] = defaultdict(list)
    for item in program.ops:
        if item.time:
            groups[f"{call_name(item.op, item.unit.op.site.call)}, {item.phase}"].append(item)
    total = {
        "name": STEP, "family": "program", "count": 1.0, "floor_us": program.floor * 1e6, "time_us": program.time * 1e6,
        "low_us": program.low * 1e6, "high_us": program.high * 1e6,
    }  # fmt: skip
    ranked = sorted(groups.items(), key=lambda row: -sum(item.time for item in row[1]))
    return [total, *(_row(name, items) for name, items in ranked)]


def _row(name: str, items: Sequence[OpTime]) -> dict[str, Any]:
    first = max(items, key=lambda item: item.time)
    work = first.unit.work
    assert work is not None
    count = sum(item.count for item in items)
    each = {
        key: sum(getattr(item, attribute) for item in items) / count * 1e6
        for key, attribute in (("floor_us", "floor"), ("time_us", "time"), ("low_us", "low"), ("high_us", "high"))
    }
    named = {"op": work.name, "dtype": work.dtype, "shape": _plain(work), "work": work_text(work), "phase": first.phase}
    return {"name": name, "family": work.family or work.name, **named, "count": count, "bound": first.bound, **each}


def work_text(work: Work) -> str:
    """A work with its sizes. Profiles show a cast as the copy that it calls, so both are one."""
    text = repr(work).partition(":")[0]
    return text.replace("cast ", "copy ", 1) if work.name == "cast" else text


def _plain(work: Work) -> dict[str, Any]:
    return {
        key: value if isinstance(value, str) else float(np.max(np.asarray(value))) for key, value in work.shape.items()
    }


def seal_program(
    ledger: Ledger,
    program: ProgramPrediction,
    note: str = "",
    show: Callable[[Sealed], object] = lambda _sealed: None,
) -> Sealed:
    """Seal the prediction of a program; `show` gets the seal before it is committed."""
    facts = {"name": program.trace.name, "mode": program.mode, "framework": program.trace.framework}
    machine = program.machine
    return ledger.seal(rows_of(program), save.text(machine), machine.name, {"program": facts}, note, show)


# -- after the run -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joined:
    """A sealed row and the groups of the profile that it is about; times are of one call, in seconds."""

    row: Mapping[str, Any]
    items: tuple[OpItem, ...]
    how: str

    DOCUMENT: ClassVar = (
        "name", "phase", "predicted_us=predicted", "low_us=low", "high_us=high", "measured_us=measured", "error", "inside",
        "predicted_count", "measured_count", "joined_by=how",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def phase(self) -> str:
        return str(self.row.get("phase", ""))

    @property
    def predicted(self) -> float:
        return float(self.row["time_us"]) / 1e6

    @property
    def low(self) -> float:
        return float(self.row["low_us"]) / 1e6

    @property
    def high(self) -> float:
        return float(self.row["high_us"]) / 1e6

    @property
    def time(self) -> float:
        """Measured device time of a step."""
        return sum(item.group.time for item in self.items)

    @property
    def predicted_count(self) -> float:
        return float(self.row["count"])

    @property
    def measured_count(self) -> float:
        return sum(item.group.count for item in self.items)

    @property
    def measured(self) -> float:
        return self.time / self.measured_count

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1

    @property
    def inside(self) -> bool:
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class ProgramSettlement:
    sealed: Sealed
    report: ProgramReport
    joined: tuple[Joined, ...]  # the longest first
    unmatched: Mapping[str, list[str]]
    settled: Settled | None = None
    broken: str = ""
    step: Mapping[str, Any] = field(default_factory=dict)  # the sealed row of the step

    DOCUMENT: ClassVar = (
        "seal=sealed.id", "sealed_at=sealed.time", "machine=report.machine.name", "program=sealed.environment", "step_predicted_us",
        "step_measured_us", "step_error", "joined_share", "median_error", "items=joined", "unmatched", "settled", "broken?",
    )  # fmt: skip

    @property
    def step_predicted_us(self) -> float:
        return float(self.step["time_us"])

    @property
    def step_measured_us(self) -> float:
        return self.report.view.device * 1e6

    @property
    def step_error(self) -> float:
        return self.step_predicted_us / self.step_measured_us - 1

    @property
    def joined_share(self) -> float:
        """Of the measured device time."""
        return min(sum(row.time for row in self.joined) / self.report.view.device, 1.0)

    @property
    def median_error(self) -> float | None:
        """Over the operators, each by its share of the measured time."""
        ranked = sorted((abs(row.error), row.time) for row in self.joined)
        half, reached = sum(time for _, time in ranked) / 2, 0.0
        for error, time in ranked:
            reached += time
            if reached >= half:
                return error
        return None


def settle_program(
    ledger: Ledger,
    sealed: Sealed,
    report: ProgramReport,
    timeline: Timeline,
    path: Path,
    show: Callable[[ProgramSettlement], object] = lambda _settlement: None,
) -> ProgramSettlement:
    """Join a profile with the seal of its program and add the result to the ledger; `show` gets it before it is committed."""
    if report.machine.name != sealed.machine["name"]:
        raise InputError(
            f"seal {sealed.id} is for {sealed.machine['name']}, not {report.machine.name}; omit the machine"
        )
    rows = {str(row["name"]): row for row in sealed.predictions}
    joined, unmatched = join(rows, report.items)
    unmatched["observed"] += [item.name for item in report.uncounted]
    if not joined:
        few = ", ".join(unmatched["observed"][:4])
        raise InputError(
            f"seal {sealed.id} was not settled: no operator of {path.name} is one of the sealed program ({few}); "
            "settle it with a trace of the same program, recorded with shapes"
        )
    when, dated = measured_at([timeline], [path])
    measured: list[tuple[Mapping[str, Any], float, str]] = (
        [(rows[STEP], report.view.device, "")] if STEP in rows else []
    )
    measured += [(row.row, row.measured, row.items[0].gap.target.bound) for row in joined]
    items = [
        {"name": row["name"], "measured_us": time * 1e6, "measured_at": when, "bound_observed": bound, "cause": "", "prediction": row}
        for row, time, bound in measured
    ]  # fmt: skip
    origin = {"files": [path.name], "tools": [timeline.tool], "dated_by": dated}
    made = ProgramSettlement(sealed, report, joined, unmatched, step=rows.get(STEP, {}))
    try:
        settled = ledger.settle(sealed.id, items, origin, lambda settled: show(replace(made, settled=settled)))
        return replace(made, settled=settled)
    except Broken as error:
        broken = replace(made, broken=str(error))
        show(broken)
        return broken


def join(
    rows: Mapping[str, Mapping[str, Any]], items: Iterable[OpItem]
) -> tuple[tuple[Joined, ...], dict[str, list[str]]]:
    """Sealed rows with their groups: by name; of those left by equal work, then attention by its shapes, in the same phase."""
    open_rows = {name: row for name, row in rows.items() if name != STEP}
    left, made = list(items), list[Joined]()
    for how, row_key, item_key in _KEYS:
        names: dict[Any, str] = {}
        for name, row in open_rows.items():
            names.setdefault(row_key(row), name)
        taken: dict[str, list[OpItem]] = defaultdict(list)
        kept: list[OpItem] = []
        for item in left:
            row_name = names.get(item_key(item))
            (kept if row_name is None else taken[row_name]).append(item)
        left = kept
        made += [Joined(open_rows.pop(name), tuple(each), how) for name, each in taken.items()]
    observed = [_item_name(item) for item in left]
    return tuple(sorted(made, key=lambda row: -row.time)), {"predicted": list(open_rows), "observed": observed}


def _item_name(item: OpItem) -> str:
    return f"{item.name}, {item.group.phase}"


def _item_work(item: OpItem) -> tuple[str, str]:
    work = item.group.owner.work
    return (work_text(work) if work is not None else "", item.group.phase)


def _sizes(name: str) -> str:
    return name.partition(" ")[2].partition(" ")[0]


def _queries(op: str, phase: str, name: str) -> tuple[str, ...]:
    """Attention by the shape of its queries, whatever its mask; any other op is joined by nothing less than its work."""
    return (op, phase, _sizes(name).partition("·")[0]) if op.startswith("attention") else (name,)


def _item_queries(item: OpItem) -> tuple[str, ...]:
    work = item.group.owner.work
    return _queries(work.name if work is not None else "", item.group.phase, _item_name(item))


_KEYS: tuple[tuple[str, Callable[[Mapping[str, Any]], Any], Callable[[OpItem], Any]], ...] = (
    (BY_NAME, lambda row: row["name"], _item_name),
    (BY_WORK, lambda row: (row.get("work"), row.get("phase"), _sizes(row["name"])), lambda item: (*_item_work(item), _sizes(item.name))),
    (BY_WORK, lambda row: (row.get("work"), row.get("phase")), _item_work),
    (BY_SHAPE, lambda row: _queries(str(row.get("op")), str(row.get("phase")), row["name"]), _item_queries),
)  # fmt: skip
