"""A JAX trace as a Timeline: each kernel with the instruction, scope, phase and line of the program it was compiled from.

Shapes and lines come from the `.xplane.pb` next to the trace; without it, kernels are known by name and time. Of a program
that differentiates, what follows neither from the forward nor from the backward pass is the update of its parameters.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.intake import clean, refuse_over
from ...core.jax_names import pass_of, scopes
from ...core.timeline import (
    COLLECTIVE,
    COMMUNICATION,
    COPIES,
    COPY,
    FILL,
    KERNEL,
    OPERATOR,
    Activity,
    Call,
    Columns,
    Runs,
    Site,
    Steps,
    Tensor,
    Timeline,
    Waits,
)  # fmt: skip
from ..chrome_trace import MICRO, Span
from ..repetition import period, warmup_steps
from .hlo import Instruction, Module, modules
from .operators import call_of, fused_operators
from .replays import instructions

COMMAND_BUFFER = "command_buffer"
_PROGRAM = re.compile(r"(?:jit|pmap|pjit)_")
_COLLECTIVE = re.compile(r"nccl|all-reduce|all-gather|reduce-scatter|all-to-all|collective")
_GEOMETRY = re.compile(r"grid:(\d{1,10}),(\d{1,10}),(\d{1,10}) block:(\d{1,4}),(\d{1,4}),(\d{1,4})")
ELEMENTS_PER_THREAD = (4, 2, 1)  # of XLA's elementwise loops; as many as the size of the array allows
SAME_SIZE = 1.01  # ratio of elements, up to which versions of a program count as one
_Version = tuple[Module, Instruction]
_ACROSS = re.compile(r"memcpy(?:h2d|d2h)", re.IGNORECASE)


class Event(NamedTuple):
    """What ran: its stretches of time are those outside the operations it holds."""

    span: Span
    stretches: Sequence[tuple[float, float]]
    device: str
    stream: str
    streams: bool  # whether its line is a stream of a GPU


class Recorded(NamedTuple):
    """What a trace holds, times in microseconds."""

    path: Path
    events: Sequence[Event]
    launches: Mapping[int, tuple[float, float]]  # by correlation
    marks: Sequence[Span]  # steps that the program marked
    waits: Sequence[Span]
    cut: tuple[str, ...]  # notes
    tool: str


class Launch(NamedTuple):
    """Threads of a kernel and of each of its blocks; 0 where they were not recorded."""

    threads: int
    block: int


NO_LAUNCH = Launch(0, 0)


def _launch(args: Mapping[str, Any]) -> Launch:
    sizes = _GEOMETRY.search(str(args.get("kernel_details", "")))
    if not sizes:
        return NO_LAUNCH
    block = math.prod(map(int, sizes.groups()[3:]))
    return Launch(math.prod(map(int, sizes.groups()[:3])) * block, block)


def _fitting(versions: Sequence[_Version], launch: Launch) -> _Version | tuple[None, None]:
    """The version whose result has as many elements as the threads of an elementwise loop compute, 4 each or fewer.

    Versions of one size, such as a matrix and its transpose, move the same bytes; the first stands for them.
    """
    for each in ELEMENTS_PER_THREAD:
        fit = [
            pair for pair in versions if 0 <= launch.threads * each - _elements(pair[1].outputs) < launch.block * each
        ]
        moved = [sum(_elements([tensor]) for tensor in (*module.operands(item), *item.outputs)) for module, item in fit]
        if fit:
            return fit[0] if max(moved) <= SAME_SIZE * min(moved) else (None, None)
    return None, None


def _elements(tensors: Sequence[Tensor]) -> int:
    return max((math.prod(tensor.shape) for tensor in tensors), default=0)


@dataclass
class _Gathered:
    programs: Mapping[str, list[Module]]
    sites: list[Site] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    def site(self, program: str, instruction: str, name: str, args: Mapping[str, Any], kind: str) -> int:
        if not program and not instruction:
            return -1
        scope = clean(str(args.get("tf_op", "")).rsplit(":", 1)[0])
        launch = _launch(args) if len(self.programs.get(program, ())) > 1 else NO_LAUNCH
        key = "site", program, instruction or name, scope, kind in (COPY, COLLECTIVE) and name, launch
        if key not in self.numbers:
            self.numbers[key] = len(self.sites)
            self.sites.append(self._site(program, instruction or name, scope, kind, name, launch))
        return self.numbers[key]

    def _site(self, program: str, instruction: str, scope: str, kind: str, name: str, launch: Launch) -> Site:
        module, item = self.instruction(program, instruction, launch)
        if module is None or item is None:
            return Site(Call(clean(instruction)), _phase(scope, False, kind, name), scopes(scope) or (clean(program),))
        named = (part.op_name for part in (item, *module.inner(item)[::-1]) if part.op_name)
        scope = next(named, scope)
        return Site(
            call_of(module, item),
            _phase(scope, any("jvp(" in other.op_name for other in module.kernels.values()), kind, name),
            scopes(scope) or (clean(program),),
            item.source,
            (Call(item.name),),
            fused_operators(module, item),
        )

    def instruction(
        self, program: str, name: str, launch: Launch = NO_LAUNCH
    ) -> tuple[Module | None, Instruction | None]:
        """The instruction of a program; of several versions, as of an op run by itself on arrays of several sizes, the one
        that the launch fits. None where they disagree."""
        versions = [
            (module, module.kernels[name]) for module in self.programs.get(program, ()) if name in module.kernels
        ]
        alike = {(module.operands(item), item.outputs, item.op_name) for module, item in versions}
        return versions[0] if len(alike) == 1 else _fitting(versions, launch)

    def activity(self, event: Event, kind: str) -> int:
        name, args = event.span.what
        key = "activity", id(event.span.what), event.device, event.stream
        if key not in self.numbers:
            settings = {"stream": clean(event.stream)} if event.stream else {}
            details = clean(str(args.get("kernel_details") or args.get("memcpy_details") or ""))
            settings |= {"details": details} if details else {}
            self.numbers[key] = len(self.activities)
            kernel = clean(name) if event.streams else ""
            self.activities.append(Activity(kind, clean(_short(name)), kernel, clean(event.device), settings))
        return self.numbers[key]


def timeline(recorded: Recorded) -> Timeline:
    programs, notes = _programs(recorded.path)
    gathered = _Gathered(programs)
    events = sorted(recorded.events, key=lambda event: event.span.start)
    zero = min((event.span.start for event in events), default=0.0)
    zero = min([zero, *(start for start, _ in recorded.launches.values()), *(mark.start for mark in recorded.marks)])
    replayed = _replayed(events, gathered)
    rows = [row for event in events for row in _rows(event, gathered, replayed)]
    refuse_over("kernels", len(gathered.sites), f"'{recorded.path}', {len(gathered.sites):,} different operations,")
    rows.sort(key=lambda row: row[0])
    launches = [recorded.launches.get(event.span.ident) for _, _, _, _, event in rows]
    begins, ends = (np.array([row[place] for row in rows], np.float64) for place in (0, 1))
    sites = np.array([row[2] for row in rows], np.int64)
    sent = np.array([launch[0] if launch else row[0] for launch, row in zip(launches, rows, strict=True)], np.float64)
    steps, step_of = _steps(recorded, rows, gathered, sent, zero)
    calls = np.flatnonzero(sites >= 0)
    call = np.full(len(rows), -1)
    call[calls] = np.arange(len(calls))
    marked = sorted(recorded.waits, key=lambda span: span.start)

    def seconds(values: Any) -> np.ndarray:
        return (np.asarray(values, np.float64) - zero) * MICRO

    return Timeline(
        tuple(gathered.sites),
        tuple(gathered.activities),
        Runs(
            seconds(begins),
            seconds(ends),
            sites,
            np.array([row[3] for row in rows], np.int64),
            call,
            step_of,
            np.array([_stream(row[4].stream) for row in rows], np.int64),
            np.array([id(row[4]) not in replayed and row[2] >= 0 for row in rows], bool),
            np.array(["cuda_graph_id" in row[4].span.what[1] for row in rows], bool),
            seconds([launch[1] if launch else math.nan for launch in launches]),
        ),
        Columns(seconds(begins[calls]), seconds(ends[calls]), sites[calls]),
        Waits(
            seconds([span.start for span in marked]),
            seconds([span.end for span in marked]),
            np.full(len(marked), -1),
            tuple(clean(span.what) for span in marked),
            tuple(clean(span.what) for span in marked),
        ),
        steps,
        shapes=any(site.call.tensors for site in gathered.sites),
        conditions={"device": clean(events[0].device), "cache": "as the program left it"} if events else {},
        tool=recorded.tool,
        notes=(*recorded.cut, *notes),
    )


def _programs(path: Path) -> tuple[Mapping[str, list[Module]], tuple[str, ...]]:
    compiled = path.with_name(re.sub(r"trace\.json(?:\.gz)?$", "xplane.pb", path.name))
    if compiled == path or not compiled.exists():
        return {}, (
            "the compiled programs (.xplane.pb) are not next to the trace: shapes and source lines are not known",
        )
    try:
        return modules(compiled), ()
    except InputError as error:
        return {}, (f"the compiled programs next to the trace were not read: {error}",)


def _kind(event: Event) -> str:
    name, args = event.span.what
    lower = name.lower()
    if lower.startswith("memcpy") or args.get("memcpy_details"):
        return COPY
    if lower.startswith("memset"):
        return FILL
    if _COLLECTIVE.search(lower) or _COLLECTIVE.search(str(args.get("hlo_category", ""))):
        return COLLECTIVE
    return KERNEL if event.streams else OPERATOR


def _rows(
    event: Event, gathered: _Gathered, replayed: Mapping[int, str]
) -> Iterator[tuple[float, float, int, int, Event]]:
    name, args = event.span.what
    kind = _kind(event)
    program, instruction = str(args.get("hlo_module", "")), str(args.get("hlo_op", ""))
    if instruction.startswith(COMMAND_BUFFER):
        instruction = replayed.get(id(event), "")
    site = gathered.site(program, instruction, name, args, kind)
    activity = gathered.activity(event, kind)
    for start, end in event.stretches:
        yield start, end, site, activity, event


def _replayed(events: Sequence[Event], gathered: _Gathered) -> dict[int, str]:
    """By the identity of an event of a command buffer, the instruction that it ran."""
    replays: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
    for event in events:
        args = event.span.what[1]
        if str(args.get("hlo_op", "")).startswith(COMMAND_BUFFER) and _kind(event) == KERNEL:
            replays[str(args.get("hlo_module", "")), str(args["hlo_op"]), event.span.ident].append(event)
    joined: dict[int, str] = {}
    known: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (program, _, _), members in replays.items():
        kernels = tuple(event.span.what[0] for event in members)
        if (program, kernels) not in known:
            versions = [instructions(module, kernels) for module in gathered.programs.get(program, ())]
            joins = [names for names in versions if any(names)]
            agreed = bool(joins) and all(names == joins[0] for names in joins)
            known[program, kernels] = joins[0] if agreed else [""] * len(kernels)
        joined.update((id(event), name) for event, name in zip(members, known[program, kernels], strict=True) if name)
    return joined


def _phase(scope: str, differentiates: bool, kind: str, name: str) -> str:
    if kind == COLLECTIVE:
        return COMMUNICATION
    if kind == COPY and _ACROSS.match(name):
        return COPIES
    return pass_of(scope, differentiates)


def _short(name: str) -> str:
    bare = re.split(r"[<(]", name.removeprefix("void ").replace("(anonymous namespace)::", ""))[0]
    return bare.rsplit("::", 1)[-1].strip() or name


def _stream(name: str) -> int:
    number = re.search(r"#(\d{1,9})", name)
    return int(number[1]) if number else -1


# -- steps ---------------------------------------------------------------------------------------------------------


def _steps(
    recorded: Recorded, rows: Sequence[Any], gathered: _Gathered, sent: np.ndarray, zero: float
) -> tuple[Steps, np.ndarray]:
    """By `StepTraceAnnotation`, else by the repetition of what the programs ran, else the entire run.

    A step ends when the device has finished what it launched, and the next begins there.
    """
    begins, ends = (np.array([row[place] for row in rows]) for place in (0, 1))
    step_of, how = np.zeros(len(rows), np.int64), "single"
    if recorded.marks:
        starts = np.array([mark.start for mark in recorded.marks])
        step_of, how = np.searchsorted(starts, sent, "right") - 1, "marked"
        step_of[sent > max(mark.end for mark in recorded.marks)] = -1
    else:
        ran = [
            place for place, row in enumerate(rows) if _PROGRAM.match(str(row[4].span.what[1].get("hlo_module", "")))
        ]
        numbers: dict[Any, int] = {}
        tokens = [numbers.setdefault((rows[place][2], rows[place][4].span.what[0]), len(numbers)) for place in ran]
        repeated = period(tokens, (ends - begins)[ran]) if ran else None
        if repeated is not None:
            how, step_of = "repetition", np.full(len(rows), -1)
            for place in range(repeated.begin, repeated.end):
                step_of[ran[place]] = (place - repeated.begin) // repeated.length
    present, renumbered = np.unique(step_of[step_of >= 0], return_inverse=True)
    if not len(present):
        entire = np.zeros(len(rows), np.int64)
        return Steps(np.zeros(1), np.array([(ends.max(initial=zero) - zero) * MICRO]), "single"), entire
    inside = step_of >= 0
    step_of[inside] = renumbered
    finished = np.full(len(present), -np.inf)
    np.maximum.at(finished, renumbered, ends[inside])
    finished = np.maximum.accumulate(finished)
    started = np.append(min(begins[step_of == 0].min(), sent[step_of == 0].min()), finished[:-1])
    warmup = warmup_steps(finished - started, np.bincount(renumbered, (ends - begins)[inside], len(present)))
    kept = slice(warmup, None)
    step_of = np.where(step_of >= warmup, step_of - warmup, -1)
    return Steps((started[kept] - zero) * MICRO, (finished[kept] - zero) * MICRO, how, warmup), step_of
