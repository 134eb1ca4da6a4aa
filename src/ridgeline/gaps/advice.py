"""Advice: the rules that match a gap, each with its evidence and its gain, the largest gain first.

A rule whose counters were read and match is shown, with their values as evidence; one whose counters were not read is
possible; one that they contradict is left out.

A move that merges launches also saves idle time: gain = device gain + waiting before - waiting after, where the kernels
are known to be launched one by one. The two parts are reported separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

from ..core.units import show
from ..prediction.host import GRAPH
from .accounting import Cause
from .gains import GAINS
from .gap import Gap
from .kernel_families import is_library
from .regime import unit_name
from .rules import POSSIBLE, SHOWN, Move, Rule, Signs, catalog, figures, rules
from .signs import signs

MIN_RELATIVE_GAIN = {SHOWN: 0.03, POSSIBLE: 0.05}  # of the measured time
MIN_UNPROMISED_GAIN = 0.3  # of the measured time above the roofline, from which waste of a library kernel is named
WASTE = ("extra bytes", "more bytes", "contention")  # groups of rules that count bytes or requests for nothing
GENERAL = 3  # rank of the rules that are not about a fault of their own
MIN_MATERIAL_GAIN = 0.4  # of the largest gain, from which a specific cause comes before a general one
MIN_EXPLAINED = 0.9  # of the possible gain, from which causes without counters are not listed


@dataclass(frozen=True)
class End:
    """Where the point would be on the roofline plane."""

    intensity: float
    rate: float


@dataclass(frozen=True)
class Advice:
    rule: str
    status: str  # shown or possible
    cause: str
    move: str
    changes: str
    direction: str
    limit: str
    gain: float | None  # seconds; an upper bound where the cause is only possible
    evidence: tuple[str, ...]
    end: End | None = None
    missing: tuple[str, ...] = ()  # figures that would decide
    host: float | None = None  # the host launch overhead in the gain; None where it is unknown

    DOCUMENT: ClassVar = (
        "rule", "status", "cause", "move", "changes", "direction", "limit", "gain_us=gain", "device_gain_us=device",
        "host_gain_us=host", "evidence", "end", "missing",
    )  # fmt: skip

    @property
    def shown(self) -> bool:
        return self.status == SHOWN

    @property
    def name(self) -> str:
        """The cause in a few words, without its explanation."""
        return self.cause.partition(":")[0]

    @property
    def device(self) -> float | None:
        """The device time in the gain."""
        return None if self.gain is None else self.gain - (self.host or 0.0)


def advise(gap: Gap) -> list[Advice]:
    """Shown causes, the largest gain first; then suggestions from the work itself, then causes without counters."""
    known = signs(gap)
    holding = {rule.name: (rule, status) for rule in rules() if (status := rule.status(known))}
    priced = {name: _priced(gap, rule, status, known) for name, (rule, status) in holding.items()}
    offered: list[tuple[Rule, Advice]] = []
    for rule, status in holding.values():
        move, price = catalog()[rule.move], priced[rule.name]
        if any(name in holding and holding[name][1] == SHOWN and priced[name] is not None for name in rule.unless):
            continue
        if (move.direction == "right" and gap.deep_compute) or (move.key == "graph" and gap.sent == GRAPH):
            continue
        if price is not None:
            offered.append((rule, _advice(gap, rule, status, move, *price, known)))
    # causes without counters are dropped where a shown one explains the gap
    explained = max((item.device or 0.0 for _, item in offered if item.shown), default=0.0)
    unexplained = explained < MIN_EXPLAINED * (gap.measured - gap.achievable)
    kept = [(rule, item) for rule, item in offered if item.shown or rule.possible or unexplained]
    # suggestions from the work itself come before causes without counters
    kept.sort(key=lambda pair: (not pair[1].shown, not pair[0].possible, -(pair[1].gain or 0.0)))
    return [item for _, item in sorted(kept, key=partial(_order, explained))]


def _priced(gap: Gap, rule: Rule, status: str, known: Signs) -> tuple[float | None, float | None] | None:
    """Device and host part of the gain, None each where not known; None in all where it is too small to be the cause."""
    gain = GAINS[rule.gain](gap, known)
    if rule.rank >= GENERAL and not gap.target.algorithm_known and any(map(is_library, gap.measurement.kernels)):
        gain = None  # how fast the library's kernel can be is not known without its op
    gain = None if gain is None else min(gain, gap.measured)
    host = None if gain is None else _host_gain(gap, catalog()[rule.move], gain)
    if gain is not None and gain + (host or 0.0) < MIN_RELATIVE_GAIN[status] * gap.measured:
        return (None, None) if _counted_waste(gap, rule, status) else None
    return gain, host


def _counted_waste(gap: Gap, rule: Rule, status: str) -> bool:
    """Whether a library kernel, as fast as expected of it, has counted waste: worth a word, without a promise."""
    far = gap.target.at_achievable_share < (1 - MIN_UNPROMISED_GAIN) * gap.measured
    return status == SHOWN and rule.group in WASTE and far and not gap.target.matrix_flops


def _order(largest: float, pair: tuple[Rule, Advice]) -> tuple[bool, bool, int]:
    """Shown causes with much of the largest gain first, the more specific ones before the general ones."""
    rule, item = pair
    large = item.shown and (item.device or 0.0) >= MIN_MATERIAL_GAIN * largest
    return not item.shown, not large, rule.rank if large else 0


def _advice(
    gap: Gap, rule: Rule, status: str, move: Move, gain: float | None, host: float | None, known: Signs
) -> Advice:
    """`gain` is the device part."""
    asked = [name for name in (*rule.figures, *rule.quotes) if name != "device"]
    return Advice(
        rule=rule.name,
        status=status,
        cause=rule.cause,
        move=move.name,
        changes=move.changes,
        direction=move.direction,
        limit=move.limit,
        gain=None if gain is None else gain + (host or 0.0),
        evidence=_evidence(gap, rule, asked, known) + _host_evidence(gap, move, host),
        end=_end(gap, move, gain),
        missing=tuple(name for name in asked if name not in known and name not in rule.quotes)
        + _missing_of_host(gap, move),
        host=host,
    )


def _evidence(gap: Gap, rule: Rule, asked: Sequence[str], known: Signs) -> tuple[str, ...]:
    evidence = [_quoted(*figures()[name], known[name]) for name in asked if name in known and name in figures()]
    if rule.gain == "fuse" and gap.between is not None:
        evidence.append(f"shares {gap.between.tensor} ({show(gap.between.bytes, 'B', 3)}) with {gap.between.other}")
    return tuple(evidence)


@lru_cache(maxsize=4096)  # the rules of a kernel quote the same figures
def _quoted(title: str, unit: str, value: float | str) -> str:
    """A figure as evidence: `L2 hit rate 31 %`."""
    if isinstance(value, str):
        return f"{title} {unit_name(value).replace('_', ' ')}"
    if unit == "%":
        return f"{title} {show(100 * value, '', 3)} %"
    return f"{title} {show(value, unit if unit != 'x' else '', 3)}{'x' if unit == 'x' else ''}"


def _end(gap: Gap, move: Move, gain: float | None) -> End | None:
    """Never right of the algorithmic AI, never above the roofline there."""
    flops, before, needs = gap.counts.flops, gap.counts.intensity, gap.work.needs
    memory, engine = needs.get(gap.target.main), needs.get(gap.counts.engine or "")
    if gain is None or flops is None or before is None or memory is None or engine is None or gain >= gap.measured:
        return None
    after, intensity = gap.measured - gain, before
    if "bytes" in move.effect and gap.target.intensity is not None:
        # cutting bytes by a factor moves along the roofline, so x grows as much as y
        intensity = max(min(before * gap.measured / after, gap.target.intensity), before)
    peak = float("inf") if move.key == "engine" else engine.rate
    return End(intensity, min(flops / after, peak, intensity * memory.rate))


def _host_gain(gap: Gap, move: Move, device: float) -> float | None:
    """The host launch overhead that a move saves; None where it is unknown.

    Many kernels become one launch. Before: max(launches x each - measured, 0). After: max(each - (measured - device), 0).
    Negative where the device becomes faster than the host can launch.
    """
    if not move.joins_launches or gap.sent is None:
        return None
    before, after = gap.waiting, gap.waits(1.0, gap.measured - device)
    return None if before is None or after is None else before - after


def _host_evidence(gap: Gap, move: Move, host: float | None) -> tuple[str, ...]:
    """The host part of a gain, or what it would be if the kernels are launched one by one."""
    time = gap.waiting if host is None else host
    if not move.joins_launches or gap.host is None or not time:
        return ()
    part = "more if launched one by one" if host is None else "of the gain"
    return (f"{Cause.HOST_WAIT.value}: {show(time, 's', 3)} {part} ({gap.host.evidence})",)


def _missing_of_host(gap: Gap, move: Move) -> tuple[str, ...]:
    """Figures needed to price the host: dispatch cost per launch, and whether each kernel is launched."""
    if not move.joins_launches or gap.measurement.launches < 2 or gap.sent == GRAPH:
        return ()
    return (*(("dispatch",) if gap.host is None else ()), *(("sent",) if gap.sent is None else ()))
