"""Gap: one predicted step against what was seen of it; where every microsecond of the difference went.

    vertical   = roof at the observed intensity / achieved rate = time / floor at the observed counts
    horizontal = algorithmic / observed intensity = excess bytes / excess flops
    time / floor at the algorithmic counts = vertical x (floor at the observed / floor at the algorithmic counts)

What the counters did not see stays unknown (None), never 1. Nothing is clamped: fewer bytes than the algorithm needs, or
a time below the floor, are findings. The accounting replaces the algorithm's counts by the observed ones one after the
other, so that its entries sum to the measured time whatever was seen.

Times are times on the device. What the device waits for the host between kernels is in none of them and stands apart:

    wall = max(device, launches x what the host takes to send one)      waiting = wall - device
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum, hypot, inf

import numpy as np

from ..core.errors import InputError, MissingFigure
from ..core.families import TimeItem
from ..core.machine import ANY, MAIN, Machine
from ..core.observation import Observation
from ..core.units import show
from ..core.work import READ, WRITE, Array, Work
from ..prediction.host import GRAPH, SENT, launch_latency, waiting
from ..prediction.predict import Prediction
from .join import Pair, Seen, seen

GOOD = (0.65, 0.85)  # of the stated roof: where tuned kernels usually land
FAULT, AGAIN = 0.5, 0.9  # below the first suspect a fault, above the second measure again
# What far too slow kernels usually have wrong, by the kind of machine.
FAULTS = {
    "gpu": "tile shape, type path, no tensor cores, too few warps",
    "cpu": "no vector instructions, one thread, several passes over the data",
}
REACH = {"stated": 0.8, "measured": 0.9}  # of the roof: what a kernel without faults can be brought to
ABOVE = 1.03  # beyond the roof by more than ceilings that were measured err
COUNTED = 0.02  # what counters of the device memory are off by
ONCE = 0.03  # stands for the spread of a time that was taken once
BOUND = 0.6  # share of the time that something must be busy to be called the limiter
NEAR = 0.1  # shares this close together are not told apart
APART = 0.05  # relative difference from which counts are worth a word
WIDE = 1.25  # a gap from which a direction is worth going
DEEP = 3.0  # times the ridge from which more intensity brings nothing

MAIN_NAMES = (MAIN, "hbm", "dram", "memory")  # what importers call the outermost memory
# How busy a pipe was while its multiprocessor had work, and what it does.
PIPES = {"fma_busy": "vector.fp32", "fp64_busy": "vector.fp64", "special_busy": "special.fp32", "issue": "issue"}

OVERHEAD = "set by launching, not by a roof"

FLOOR = "floor at algorithmic work"
TRAFFIC, KEPT = "extra traffic", "traffic a cache kept"
SLOWER, FASTER = "slower engine", "faster engine"
EXTRA, LESS = "extra work", "work left out"
CLOCK = "clock other than that of the peak"
QUANTIZATION = "quantization, fill and drain"
LAUNCH = "launch and gaps"
LOW = "low efficiency of the limiter"
REST = "rest"
WAITING = "waiting for the host"


@dataclass(frozen=True)
class Need:
    """Work on an engine or bytes over a level: at least `amount / rate` seconds."""

    side: str  # compute or memory
    amount: float
    rate: float
    uncertainty: float
    kind: str

    @property
    def time(self) -> float:
        return self.amount / self.rate


@dataclass(frozen=True)
class Target:
    """The predicted side of a pair, for one run of its steps."""

    name: str
    machine: Machine
    ceilings: str | None
    work: Work
    time: float
    low: float
    high: float
    floor: float
    needs: Mapping[str, Need]
    items: tuple[TimeItem, ...]
    bound: str
    limiter: str
    engine: str  # of the longest arithmetic, empty without any
    matrix: float  # flops of matrix products
    count: float
    steps: tuple[str, ...]

    @property
    def fused(self) -> bool:
        return len(self.steps) > 1

    @property
    def main(self) -> str:
        return self.machine.main.name

    @property
    def flops(self) -> float:
        return self.needs[self.engine].amount if self.engine else 0.0

    @property
    def bytes(self) -> float:
        return float(np.asarray(self.work.bytes))

    def moved(self, way: str) -> float:
        return float(np.asarray(self.work.bytes_at(MAIN, way)))

    @property
    def launch(self) -> float:
        return fsum(float(item.seconds) for item in self.items if item.kind == "launch")

    @property
    def beyond(self) -> float:
        """Of the expected time, what is neither floor nor launch."""
        return max(self.time - self.floor - self.launch, 0.0)

    @property
    def shaped(self) -> float:
        """The part of it that comes from the shape; a ceiling that was measured already holds the rest of these items."""
        return min(fsum(float(item.seconds) for item in self.items if item.kind == "shape"), self.beyond)

    @property
    def loss(self) -> float:
        """What kernels of this family usually lose at their limiter, per second of floor."""
        return (self.beyond - self.shaped) / self.floor if self.floor else 0.0

    @property
    def best(self) -> float:
        """What a kernel without faults takes: the expected time, or the good kernels' share of the roof where that is less."""
        return min(self.time, self.floor / REACH[self.kind] + self.launch)

    @property
    def kind(self) -> str:
        """Measured ceilings, or those of a document."""
        kinds = {need.kind for name, need in self.needs.items() if not name.startswith("special.")}
        return "measured" if kinds == {"measured"} else "stated"


def _number(value: Array, name: str) -> float:
    found = np.asarray(value)
    if found.size != 1:
        raise InputError(f"{name}: the prediction is a sweep of {found.size} cases; predict the one case that was run")
    return float(found.reshape(()))


def target(prediction: Prediction, places: Sequence[int]) -> Target:
    """Steps of a prediction as one: their times add up, what must be done in parallel adds up term by term."""
    steps = [prediction.steps[place] for place in places]
    common = min(step.count for step in steps)
    part = Prediction(
        prediction.machine,
        tuple(replace(step, count=step.count / common) for step in steps),
        tuple(prediction.bounds[place] for place in places),
        tuple(prediction.expected[place] for place in places),
        prediction.given_efficiency,
    )
    name = " + ".join(dict.fromkeys(step.name for step in steps))
    needs: dict[str, Need] = {}
    for bound, step in zip(part.bounds, part.steps, strict=True):
        for label, term in bound.terms.items():
            amount, time = _number(term.amount, name) * step.count, _number(term.time, name) * step.count
            known = needs.get(label)
            if known is not None:
                amount, time = amount + known.amount, time + known.time
            rate = amount / time if time else term.ceiling.value
            needs[label] = Need(term.side, amount, rate, term.ceiling.uncertainty, term.ceiling.kind)
    work = Work()
    for step in part.steps:
        work = step.work if len(steps) == 1 and step.count == 1 else work + step.work.repeat(step.count)
    longest = max(needs, key=lambda label: needs[label].time, default="")
    single = part.bounds[0] if len(steps) == 1 else None
    engines = [label for label, need in needs.items() if need.side == "compute" and not label.startswith("special.")]
    return Target(
        name=name,
        machine=prediction.machine,
        ceilings=part.bounds[0].ceilings,
        work=work,
        time=_number(part.time, name),
        low=_number(part.low, name),
        high=_number(part.high, name),
        floor=max((need.time for need in needs.values()), default=0.0),
        needs=needs,
        items=tuple(replace(item, seconds=_number(item.seconds, name)) for item in part.items),
        bound=str(single.bound) if single else needs[longest].side if longest else "overhead",
        limiter=str(single.limiter) if single else longest or "launch",
        engine=max(engines, key=lambda label: needs[label].time, default=""),
        matrix=sum(
            _number(value, name) * step.count
            for step in part.steps
            for (engine, _, _), value in step.work.counts.items()
            if engine == "matrix"
        ),
        count=common,
        steps=tuple(step.name for step in steps),
    )


@dataclass(frozen=True)
class Share:
    """How much of the measured time something was busy, or would need at its ceiling."""

    name: str
    side: str  # compute, memory or overhead
    value: float


@dataclass(frozen=True)
class Regime:
    """What the run was limited by; `basis` says whether counters or the time alone tell."""

    bound: str  # compute, memory, overhead, or underused: nothing is busy long enough
    limiter: str
    share: float
    basis: str
    confirmed: bool


@dataclass(frozen=True)
class Entry:
    cause: str
    time: float


@dataclass(frozen=True)
class Between:
    """A tensor that one step writes and the next one reads, told by its size; `other` is the step at its other end.

    `certain`: both stand in one module or range, so that the size is no accident.
    """

    other: str
    tensor: str
    bytes: float
    certain: bool


@dataclass(frozen=True)
class Host:
    """The seconds it takes to send one kernel, and who says so."""

    each: float
    evidence: str
    most: bool = False  # it cannot take longer, and may take less


@dataclass(frozen=True)
class Gap:
    target: Target
    seen: Seen
    how: str = "name"
    between: Between | None = None
    notes: tuple[str, ...] = field(default=())
    sent: str | None = None  # one of SENT; None where nobody says
    host: Host | None = None  # None in a graph, of one kernel alone, and where neither a trace nor a figure tells

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def measured(self) -> float:
        return self.seen.median

    @property
    def main(self) -> str:
        return self.target.main

    # -- what was observed --------------------------------------------------------------------------------

    @cached_property
    def moved(self) -> float | None:
        """Observed bytes at the main memory."""
        for name in (self.main, *MAIN_NAMES):
            if name in self.seen.bytes:
                return self.seen.bytes[name]
        return None

    @cached_property
    def ran(self) -> str | None:
        """The engine that did the algorithm's arithmetic; None where no count is large enough to be it."""
        wanted, flops = self.target.engine, self.seen.flops
        if flops.get(wanted, 0.0) > 0:
            return wanted
        others = {name: need for name, need in self._engines.items() if need.amount >= 0.5 * self.target.flops}
        return max(others, key=lambda name: others[name].time) if wanted and others else None

    @property
    def flops(self) -> float | None:
        """Observed flops on that engine."""
        return self.seen.flops[self.ran] if self.ran else None

    @cached_property
    def _engines(self) -> dict[str, Need]:
        found = {}
        machine = self.target.machine
        for name, amount in self.seen.flops.items():
            key = name if name in machine.peaks else ANY
            if amount > 0 and key in machine.peaks:
                try:
                    peak = machine.peak(key, self.target.ceilings)
                except MissingFigure:
                    continue
                found[name] = Need("compute", amount, peak.value, peak.uncertainty, peak.kind)
        return found

    @cached_property
    def inner(self) -> dict[str, Need]:
        """Traffic at the levels between the main memory and the cores, where its ceiling is known."""
        machine, counters, moved = self.target.machine, self.seen.counters, self.seen.bytes
        amounts = {level.name: moved.get(level.name) for level in machine.levels[:-1]}
        if "l2" in amounts:
            # the way that its ceiling is about; one read that serves a cluster counts at each of its blocks
            shared = counters.get("cluster", 0.0) > 1 and counters.get("tma", 0.0) > 0
            amounts["l2"] = None if shared else counters.get("l2_to_sm", amounts["l2"])
        if "l1" in amounts and "shared" in moved:
            amounts["l1"] = moved["shared"] + (amounts["l1"] or 0.0)  # one array serves both
        found = {}
        for name, amount in amounts.items():
            try:
                ceiling = machine.bandwidth(name, self.target.ceilings)
            except MissingFigure:
                continue
            if amount is not None:
                found[name] = Need("memory", amount, ceiling.value, ceiling.uncertainty, ceiling.kind)
        return found

    @property
    def intensity(self) -> float | None:
        """Observed, at the main memory."""
        return self.flops / self.moved if self.flops and self.moved else None

    # -- the gaps -----------------------------------------------------------------------------------------

    @property
    def excess_bytes(self) -> float | None:
        return self.moved / self.target.bytes if self.moved is not None and self.target.bytes else None

    @property
    def excess_flops(self) -> float | None:
        return self.flops / self.target.flops if self.flops is not None and self.target.flops else None

    @property
    def horizontal(self) -> float | None:
        """Without arithmetic in the algorithm there is only the factor of the bytes."""
        if self.excess_bytes is None or not self.target.flops:
            return self.excess_bytes
        return self.excess_bytes / self.excess_flops if self.excess_flops else None

    @cached_property
    def _walk(self) -> tuple[tuple[Entry, ...], dict[str, Need], float | None]:
        """From the algorithm's counts to the observed ones: what each change adds, the needs then, and the floor then."""
        target, entries = self.target, [Entry(FLOOR, self.target.floor)]
        needs = dict(target.needs)

        def step(longer: str, shorter: str, **changed: Need | None) -> None:
            before = max((need.time for need in needs.values()), default=0.0)
            for name, need in changed.items():
                needs.pop(name, None)
                if need is not None:
                    needs[name] = need
            added = max((need.time for need in needs.values()), default=0.0) - before
            if added:
                entries.append(Entry(longer if added > 0 else shorter, added))

        known = self.moved is not None
        if self.moved is not None and self.main in needs:
            step(TRAFFIC, KEPT, **{self.main: replace(needs[self.main], amount=self.moved)})
        if target.engine:
            if self.ran is None:
                # compares, selects and special functions are no flops to a counter: the algorithm's count stands
                known = known and self.seen.flops.get(target.engine) == 0
            else:
                ran = self._engines.get(self.ran, needs[target.engine])
                if self.ran != target.engine:
                    step(SLOWER, FASTER, **{target.engine: None, self.ran: replace(ran, amount=target.flops)})
                step(EXTRA, LESS, **{**self._engines, self.ran: ran})
        floor = max((need.time for need in needs.values()), default=0.0)
        for name, need in self.inner.items():
            step(f"traffic at {name}", f"traffic at {name}", **{name: need})
        roof = self.seen.counters.get(f"roof.{self.ran}", 0.0)
        if self.ran in needs and roof > 0 and needs[self.ran].kind != "measured":
            step(CLOCK, CLOCK, **{self.ran: replace(needs[self.ran], rate=roof)})
        return tuple(entries), needs, floor if known and floor else None

    @property
    def needs(self) -> dict[str, Need]:
        """What has to be done at the observed counts, as far as they are known."""
        return self._walk[1]

    @property
    def deep(self) -> bool:
        """So far in the compute region, at the observed counts, that fewer bytes change nothing."""
        compute = max((need.time for need in self.needs.values() if need.side == "compute"), default=0.0)
        return self.main in self.needs and compute > DEEP * self.needs[self.main].time

    @property
    def floor_observed(self) -> float | None:
        """The floor at the observed counts of flops and of bytes at the main memory."""
        return self._walk[2]

    @property
    def vertical(self) -> float | None:
        return self.measured / self.floor_observed if self.floor_observed else None

    @property
    def total(self) -> float | None:
        """Time over the floor at the algorithm's counts, which needs no counters."""
        return self.measured / self.target.floor if self.target.floor else None

    @property
    def share(self) -> float:
        """Of the roof at the observed counts, else at the algorithm's."""
        return (self.floor_observed or self.target.floor) / self.measured

    @property
    def points(self) -> float | None:
        """Achieved less predicted share of the roof at the algorithm's counts, in percentage points."""
        return 100 * self.target.floor * (1 / self.measured - 1 / self.target.time) if self.target.floor else None

    @cached_property
    def uncertainty(self) -> dict[str, float | None]:
        """Relative, of each gap: the spread of the time, the ceiling of the limiter, the counters."""
        spread = self.seen.spread if len(self.seen.samples) > 1 else ONCE
        needs = self.needs
        ceiling = max(needs.values(), key=lambda need: need.time).uncertainty if needs else 0.0
        counted = COUNTED if self.moved is not None else None
        return {
            "time": spread,
            "vertical": hypot(spread, ceiling, COUNTED) if self.vertical is not None else None,
            "horizontal": counted if self.horizontal is not None else None,
            "excess_bytes": counted if self.excess_bytes is not None else None,
            "total": hypot(spread, ceiling),
        }

    @property
    def inside(self) -> bool:
        """Whether the time lies in the interval that was predicted."""
        return self.target.low <= self.measured <= self.target.high

    # -- the host -----------------------------------------------------------------------------------------

    def waits(self, launches: float, device: float) -> float | None:
        """Seconds the device would wait for the host with so many launches over so much device time."""
        if self.sent == GRAPH:
            return 0.0
        return None if self.host is None else waiting(launches, self.host.each, device)

    @property
    def waiting(self) -> float | None:
        """Beside the measured time, and only if the kernels are sent one by one where `sent` does not say."""
        return self.waits(self.seen.launches, self.measured)

    # -- the regime ---------------------------------------------------------------------------------------

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """How busy everything was, the busiest first: by counts over ceilings, and by the tool's own figures."""
        counters, found = self.seen.counters, dict[str, Share]()

        def add(name: str, side: str, value: float | None) -> None:
            if value is not None and (name not in found or found[name].value < value):
                found[name] = Share(name, side, value)

        active = counters.get("sm_active", 1.0)
        for name, need in self._engines.items():
            add(name, "compute", need.time / self.measured)
        for counter, name in PIPES.items():
            if counter in counters:
                add(name, "compute", counters[counter] * active)
        tensor = [name for name in self._engines if name.startswith("tensor")]
        if tensor and "tensor_busy" in counters:
            most = max(tensor, key=lambda name: self._engines[name].time)
            add(most, "compute", counters["tensor_busy"] * active)
        if self.moved is not None and self.main in self.target.needs:
            add(self.main, "memory", self.moved / self.target.needs[self.main].rate / self.measured)
        add(self.main, "memory", counters.get("hbm_busy"))
        for name, need in self.inner.items():
            add(name, "memory", need.time / self.measured)
        add("l2", "memory", counters.get("l2_busy"))
        add("l1", "memory", counters["l1_busy"] * active if "l1_busy" in counters else None)
        if not found and self.target.floor:
            side = "memory" if self.target.bound == "memory" else "compute"
            add(self.target.limiter, side, self.target.floor / self.measured)
        add("launch", "overhead", launch_latency(self.target.machine) * self.seen.launches / self.measured)
        return tuple(sorted(found.values(), key=lambda share: -share.value))

    @cached_property
    def regime(self) -> Regime:
        predicted = self.target.bound
        counted = self.moved is not None or bool(self._engines) or "hbm_busy" in self.seen.counters
        basis = "counters" if counted else "the time alone"
        launch = next(share for share in self.shares if share.name == "launch")
        if launch.value >= FAULT:
            return Regime("overhead", "launch", launch.value, basis, predicted == "overhead")
        busy = [share for share in self.shares if share.name != "launch"]
        if not busy or busy[0].value < BOUND:
            return Regime("underused", busy[0].name if busy else "", busy[0].value if busy else 0.0, basis, False)
        near = [share for share in busy if share.value >= busy[0].value - NEAR]
        # instructions feed the engine: where the predicted one is busy itself, it is the limiter
        own = next((share for share in busy if share.name == self.target.limiter), None)
        if own and own not in near and not (own.value >= BOUND and busy[0].name == "issue"):
            own = None
        top = own or next((share for share in near if share.side == predicted), None) or busy[0]
        return Regime(top.side, top.name, top.value, basis, predicted in (top.side, "balanced"))

    # -- levels -------------------------------------------------------------------------------------------

    def levels(self) -> list[dict[str, float | str | None]]:
        """Intensity and roof at every level whose bytes were counted, the outermost first."""
        found: list[dict[str, float | str | None]] = []
        main = self.target.needs.get(self.main)
        outer = {self.main: replace(main, amount=self.moved)} if main and self.moved is not None else {}
        peak = self.needs[self.ran].rate if self.ran in self.needs else None
        for name, need in {**outer, **dict(reversed(self.inner.items()))}.items():
            at = self.flops / need.amount if self.flops and need.amount else None
            roof = min(peak, at * need.rate) if at is not None and peak is not None else None
            found.append(
                {
                    "level": name,
                    "bytes": need.amount,
                    "bandwidth": need.rate,
                    "share": need.time / self.measured,
                    "intensity": at,
                    "roof": roof,
                    "vertical_gap": roof * self.measured / self.flops if roof and self.flops else None,
                }
            )
        return found

    # -- accounting ---------------------------------------------------------------------------------------

    @cached_property
    def accounting(self) -> tuple[Entry, ...]:
        """Every measured microsecond; the entries sum to the measured time."""
        entries, needs, _ = self._walk
        entries = entries + tuple(
            Entry(cause, time)
            for cause, time in ((QUANTIZATION, self.target.shaped), (LAUNCH, self.target.launch))
            if time
        )
        left = self.measured - fsum(entry.time for entry in entries)
        longest = max((need.time for need in needs.values()), default=0.0)
        cause, low = LOW, min(self.target.loss * longest, max(left, 0.0))
        if left > 0 and self.regime.bound in ("compute", "memory"):
            low = left  # the limiter was found: what its counts do not need, it lost
            cause = LOW if self.regime.limiter in needs else f"{self.regime.limiter} in place of {self.target.limiter}"
        if low:
            entries += (Entry(cause, low),)
        return (*entries, Entry(REST, self.measured - fsum(entry.time for entry in entries)))

    @property
    def widest(self) -> Entry:
        """The largest part of the time beyond the floor."""
        return max(self.accounting[1:], key=lambda entry: entry.time)

    # -- in words -----------------------------------------------------------------------------------------

    @property
    def band(self) -> str:
        return (
            OVERHEAD
            if self.regime.bound == "overhead"
            else band(self.share, self.target.kind, self.target.machine.kind)
        )

    @property
    def direction(self) -> str:
        """Where to go from here: right (fewer bytes), up (use the limiter better), both, or done."""
        right = self.horizontal is not None and self.horizontal > WIDE and not self.deep
        up = self.share < 1 / WIDE
        return "both" if right and up else "right" if right else "up" if up else "done"

    @cached_property
    def findings(self) -> tuple[str, ...]:
        """What the counts say by themselves, in sentences."""
        return tuple(
            text
            for text in (
                self._above(), self._bytes(), self._flops(), self._regime(), self._waiting(), *self.notes,
            )
            if text
        )  # fmt: skip

    def _above(self) -> str:
        limit = 1 + (self.uncertainty["vertical" if self.vertical else "total"] or 0.0)
        if self.share <= max(ABOVE, limit):
            return ""
        return (
            f"{self.share:.2f} of the roof: above it by more than the figures err; measure again, "
            "and check the count of the work, the engine that is compared with (dense or sparse) and the ceiling"
        )

    def _bytes(self) -> str:
        excess, moved = self.excess_bytes, self.moved
        if excess is None or moved is None or abs(excess - 1) < APART:
            return ""
        algorithmic, counted = show(self.target.bytes, "B", 3), show(moved, "B", 3)
        if excess > 1:
            costs = next((entry.time for entry in self.accounting if entry.cause == TRAFFIC), 0.0)
            tail = f"which costs {show(costs, 's', 3)}" if costs else f"harmless: {self._longest()} takes longer"
            return f"{counted} at {self.main} where the algorithm needs {algorithmic}: {excess:.2f} x, {tail}"
        cache = self.target.machine.levels[-2] if len(self.target.machine.levels) > 1 else None
        missing, size = self.target.bytes - moved, cache.total if cache else None
        if self.target.fused:
            why = "one kernel did several steps, and what passes between them need not be moved"
        elif cache is not None and size is not None and missing <= size:
            what = (
                "outputs that were not written back yet"
                if missing <= self.target.moved(WRITE)
                else "inputs and outputs"
            )
            why = f"{cache.name} kept it: it holds {show(size, 'B', 3, binary=True)}, enough for {what}"
        else:
            why = "more than a cache could keep: check the count, or the algorithm reads less than its definition"
        return f"{counted} at {self.main} where the algorithm needs {algorithmic}: {excess:.2f} x; {why}"

    def _flops(self) -> str:
        excess = self.excess_flops
        if excess is None:
            if self.target.engine and self.seen.flops.get(self.target.engine) == 0 and not self.target.matrix:
                return "no flops counted: compares, selects and special functions are none to the counters"
            return ""
        if abs(excess - 1) < APART:
            return ""
        if excess < 1:
            return f"{excess:.2f} x the algorithm's flops: an algorithm with fewer (Winograd, Strassen, skipped masks), or the count is too high"
        costs = next((entry.time for entry in self.accounting if entry.cause == EXTRA), 0.0)
        tail = f"which costs {show(costs, 's', 3)}" if costs else f"harmless: {self._longest()} takes longer"
        why = (
            "padding of tiles"
            if self.ran and self.ran.startswith("tensor")
            else "instructions beyond the definition's count"
        )
        return f"{excess:.2f} x the algorithm's flops on {self.ran}: {why}, {tail}"

    def _longest(self) -> str:
        return max(self.needs, key=lambda name: self.needs[name].time) if self.needs else "launching"

    def _waiting(self) -> str:
        if not self.waiting or self.host is None:
            return ""
        only = "" if self.sent else "where they are sent one by one, "
        return (
            f"{only}the device waits {'at most ' if self.host.most else ''}{show(self.waiting, 's', 3)} for the host between {self.seen.launches:,.0f} kernels, "
            f"beside the measured time ({self.host.evidence})"
        )

    def _regime(self) -> str:
        found = self.regime
        if found.confirmed and found.limiter in (self.target.limiter, "launch"):
            return ""
        if found.bound == "underused":
            busiest = f"; the busiest, {found.limiter}, is at {found.share:.0%}" if found.limiter else ""
            told = f"predicted {self.target.bound} ({self.target.limiter}), seen: nothing is busy for {BOUND:.0%} of the time{busiest}"
        else:
            told = f"predicted {self.target.bound} ({self.target.limiter}), seen {found.bound}: {found.limiter} is busy for {found.share:.0%} of the time"
        return f"{told} (from {found.basis})"


def band(share: float, kind: str = "stated", machine: str = "gpu") -> str:
    """Where a share of the roof stands; measured ceilings already hold the usual loss, so one can sit at them."""
    if share > ABOVE:
        return (
            "above the roof: measure again; the ceiling is set too low, the count too high, or the data were in cache"
        )
    if share > AGAIN:
        if kind == "measured":
            return "at the roof"
        return "near the roof, where few kernels get: measure again; cache hits may stand for memory traffic"
    if share >= GOOD[0]:
        return "where good kernels live: go for the next bottleneck"
    if share >= FAULT:
        return "below the usual band"
    return f"far below: suspect a fault ({FAULTS.get(machine, FAULTS['gpu'])}) or a limit the model does not have"


def gap(prediction: Prediction, pair: Pair, stated: str | None = None) -> Gap:
    """A pair as one gap; `stated` is how its kernels are sent, for tools that do not see it."""
    found = target(prediction, pair.steps)
    notes = ("several steps in one kernel: their predictions are added",) if found.fused else ()
    told = seen(pair.observations, found.work, found.floor, found.count)
    ways = {way for item in pair.observations if (way := item.settings.get("sent")) in SENT}
    sent = (ways.pop() if len(ways) == 1 else None) if ways else stated
    host = None if sent == GRAPH else _host(pair.observations, told, found.machine)
    return Gap(found, told, pair.how, None, notes, sent, host)


def _host(items: Sequence[Observation], told: Seen, machine: Machine) -> Host | None:
    """What the host takes to send one of the step's kernels: the machine's figure, or what a trace shows where that is less.

    A trace shows at most what the host takes, because recording slows it: (device time + idle time) / launches. What a
    kernel alone waits for depends on what stands before it, so nothing is said of one.
    """
    if told.launches < 2:
        return None
    idle = [wait for item in items if isinstance(wait := item.settings.get("host_wait"), float) and 0 <= wait < inf]
    shown = (told.median + fsum(idle) / len(told.samples)) / told.launches if idle else None
    figure = machine.dispatch.value()
    if figure is not None and (shown is None or figure <= shown):
        beside = f"; {show(shown, 's', 3)} in the trace, which slows the host" if shown is not None else ""
        kind = f"{machine.dispatch.kind()} on {machine.name}"
        return Host(figure, f"model: the host takes {show(figure, 's', 3)} to send one, {kind}{beside}")
    if shown is None:
        return None
    told_by = f"observed: one every {show(shown, 's', 3)} in the trace; at most, because recording slows the host"
    return Host(shown, told_by, most=True)


def between(first: Gap, second: Gap) -> Between | None:
    """The largest tensor that the first step writes and the second reads."""
    moves = first.target.work.moves, second.target.work.moves
    written = {t: float(np.asarray(v)) for (at, t, way), v in moves[0].items() if at == MAIN and way == WRITE}
    read = {float(np.asarray(v)) for (at, _, way), v in moves[1].items() if at == MAIN and way == READ}
    same = {tensor: size for tensor, size in written.items() if size in read and size > 0}
    if not same:
        return None
    tensor = max(same, key=lambda name: same[name])
    modules = [item.name.rpartition(".")[0] for item in (first, second)]
    ranges = [item.seen.path[:-1] for item in (first, second)]
    together = any(one and one == other for one, other in (modules, ranges))
    return Between(second.name, tensor, same[tensor], together)
