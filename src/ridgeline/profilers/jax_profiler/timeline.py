"""A JAX trace as a Timeline: each kernel with the instruction, scope, phase and line of the program it was compiled from.

Shapes and lines come from the `.xplane.pb` next to the trace; without it, kernels are known by name and time. Of a program
that differentiates, what follows neither from the forward nor from the backward pass is the update of its parameters.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.intake import clean, refuse_over
from ...core.jax_names import pass_of, scopes
from ...core.timeline import (
    BACKWARD,
    COLLECTIVE,
    COMMUNICATION,
    COPIES,
    COPY,
    FILL,
    FORWARD,
    KERNEL,
    OPERATOR,
    OPTIMIZER,
    OTHER,
    Activity,
    Call,
    Columns,
    Runs,
    Site,
    Timeline,
    Waits,
)  # fmt: skip
from ..chrome_trace import MICRO, Span
from .copies import copied_size, copy_names
from .hlo import Module, modules
from .operators import call_of, fused_operators
from .replays import instructions
from .steps import steps as find_steps
from .versions import UNKNOWN_GEOMETRY, Geometry, Version, fitting, geometry, programs_of_runs

COMMAND_BUFFER = "command_buffer"
_COLLECTIVE = re.compile(r"nccl|all-reduce|all-gather|reduce-scatter|all-to-all|collective")
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


@dataclass
class _Gathered:
    programs: Mapping[str, list[Module]]
    program_of: Mapping[int, int] = field(default_factory=dict)  # by number of a launch or run, that of the program
    sites: list[Site] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    differentiated: set[int] = field(default_factory=set)  # sites in programs that differentiate

    def site(self, program: str, instruction: str, name: str, args: Mapping[str, Any], kind: str, run: int = 0) -> int:
        if not program and not instruction:
            return -1
        scope = clean(str(args.get("tf_op", "")).rsplit(":", 1)[0])
        number, launch = -1, UNKNOWN_GEOMETRY
        if len(self.programs.get(program, ())) > 1:
            number, launch = self.program_of.get(run, -1), geometry(args)
        key = "site", program, instruction or name, scope, kind in (COPY, COLLECTIVE) and name, launch, number
        if key not in self.numbers:
            self.numbers[key] = len(self.sites)
            version = self.instruction(program, instruction or name, launch, number)
            if version[0] is not None and version[0].differentiates:
                self.differentiated.add(len(self.sites))
            self.sites.append(self._site(version, program, instruction or name, scope, kind, name))
        return self.numbers[key]

    @staticmethod
    def _site(
        version: Version | tuple[None, None], program: str, instruction: str, scope: str, kind: str, name: str
    ) -> Site:
        module, item = version
        if module is None or item is None:
            return Site(Call(clean(instruction)), _phase(scope, False, kind, name), scopes(scope) or (clean(program),))
        named = (part.op_name for part in (item, *module.inner(item)[::-1]) if part.op_name)
        scope = next(named, scope)
        return Site(
            call_of(module, item),
            _phase(scope, module.differentiates, kind, name),
            scopes(scope) or (clean(program),),
            item.source,
            (Call(item.name),),
            fused_operators(module, item),
        )

    def instruction(
        self, program: str, name: str, launch: Geometry = UNKNOWN_GEOMETRY, number: int = -1
    ) -> Version | tuple[None, None]:
        """The instruction of a program; of several versions, as of an op run by itself on arrays of several sizes, the one
        of that number, else the one that the launch fits. None where they disagree."""
        modules = self.programs.get(program, ())
        known = ((module, module.kernels.get(name) or module.generated.get(name)) for module in modules)
        versions = [(module, item) for module, item in known if item is not None]
        numbered = [version for version in versions if version[0].number == number >= 0]
        if numbered:
            return numbered[0]
        alike = {(module.operands(item), item.outputs, item.op_name) for module, item in versions}
        return versions[0] if len(alike) == 1 else fitting(versions, launch)

    def activity(self, event: Event, kind: str) -> int:
        name, args = event.span.what
        key = "activity", id(event.span.what), event.device, event.stream
        if key not in self.numbers:
            settings: dict[str, Any] = {"stream": clean(event.stream)} if event.stream else {}
            details = clean(str(args.get("kernel_details") or args.get("memcpy_details") or ""))
            settings |= {"details": details} if details else {}
            settings |= copied_size(args)
            self.numbers[key] = len(self.activities)
            kernel = clean(name) if event.streams else ""
            shown, kernel = copy_names(name, details) if kind == COPY else (clean(_short(name)), kernel)
            self.activities.append(Activity(kind, shown, kernel, clean(event.device), settings))
        return self.numbers[key]


def timeline(recorded: Recorded) -> Timeline:
    programs, program_of, notes = _programs(recorded.path)
    gathered = _Gathered(programs, program_of)
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
    steps, step_of = find_steps(recorded.marks, rows, sent, zero)
    calls = np.flatnonzero(sites >= 0)
    call = np.full(len(rows), -1)
    call[calls] = np.arange(len(calls))
    marked = sorted(recorded.waits, key=lambda span: span.start)

    def seconds(values: Any) -> np.ndarray:
        return (np.asarray(values, np.float64) - zero) * MICRO

    return Timeline(
        tuple(_with_updates(gathered, sites, step_of)),
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


def _with_updates(gathered: _Gathered, site: np.ndarray, step: np.ndarray) -> list[Site]:
    """The sites, with the phase of operations that the program runs by themselves: those after all gradients of a step, in
    every step, update its parameters."""
    backward = [place for place in gathered.differentiated if gathered.sites[place].phase == BACKWARD]
    places = np.arange(len(site))
    last = np.full(int(step.max(initial=-1)) + 1, -1)
    kept = np.isin(site, backward) & (step >= 0)
    np.maximum.at(last, step[kept], places[kept])
    if not len(last) or (last < 0).any():
        return gathered.sites
    inside = step >= 0
    early = set(site[inside][places[inside] < last[step[inside]]].tolist()) | gathered.differentiated
    updates = set(site[inside].tolist()) - early
    return [
        replace(item, phase=OPTIMIZER) if number in updates and item.phase in (FORWARD, OTHER) else item
        for number, item in enumerate(gathered.sites)
    ]


def _programs(path: Path) -> tuple[Mapping[str, list[Module]], Mapping[int, int], tuple[str, ...]]:
    """The compiled programs by name, the number of that of each run where names are ambiguous, and notes."""
    compiled = path.with_name(re.sub(r"trace\.json(?:\.gz)?$", "xplane.pb", path.name))
    if compiled == path or not compiled.exists():
        return (
            {},
            {},
            ("the compiled programs (.xplane.pb) are not next to the trace: shapes and source lines are not known",),
        )
    try:
        programs = modules(compiled)
        ambiguous = any(len(versions) > 1 for versions in programs.values())
        return programs, programs_of_runs(compiled) if ambiguous else {}, ()
    except InputError as error:
        return {}, {}, (f"the compiled programs next to the trace were not read: {error}",)


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
    site = gathered.site(program, instruction, name, args, kind, event.span.ident)
    activity = gathered.activity(event, kind)
    for start, end in event.stretches:
        yield start, end, site, activity, event


def _replayed(events: Sequence[Event], gathered: _Gathered) -> dict[int, str]:
    """By the identity of an event of a command buffer, the instruction that it ran."""
    replays: dict[tuple[str, str, int], list[Event]] = defaultdict(list)
    ran: dict[str, set[str]] = defaultdict(set)  # what the trace names itself, by program
    for event in events:
        program, name = (str(event.span.what[1].get(key, "")) for key in ("hlo_module", "hlo_op"))
        if not name.startswith(COMMAND_BUFFER):
            ran[program].add(name)
        elif _kind(event) == KERNEL:
            replays[program, name, event.span.ident].append(event)
    joined: dict[int, str] = {}
    known: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (program, _, _), members in replays.items():
        kernels = tuple(event.span.what[0] for event in members)
        if (program, kernels) not in known:
            versions = [instructions(module, kernels, ran[program]) for module in gathered.programs.get(program, ())]
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
