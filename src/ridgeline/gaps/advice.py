"""What to try next: the rules that a gap's evidence supports, what each would bring, the largest gain first.

A rule whose counters were read and hold is shown, with their values as evidence; one whose counters were not read is
possible; one that they contradict is left out.

A move that makes one launch of many also saves waiting for the host: gain = device gain + waiting before - waiting after,
where the kernels are known to be sent one by one. The two parts are kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..core.units import show
from ..prediction.host import GRAPH
from .accounting import Cause
from .gains import GAINS
from .gap import Gap
from .rules import POSSIBLE, SHOWN, Move, Rule, Signs, catalog, rules
from .signs import signs

MIN_RELATIVE_GAIN = {SHOWN: 0.01, POSSIBLE: 0.05}  # of the measured time
MIN_EXPLAINED = 0.9  # of what could be gained, beside which causes that were not counted are not listed


@dataclass(frozen=True)
class End:
    """Where a point of the roofline chart would land."""

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
    gain: float | None  # seconds, at most where it is only possible
    evidence: tuple[str, ...]
    end: End | None = None
    missing: tuple[str, ...] = ()  # figures that would decide
    host: float | None = None  # the part of the gain that is waiting for the host; None where it is not known

    DOCUMENT: ClassVar = (
        "rule", "status", "cause", "move", "changes", "direction", "limit", "gain_us=gain", "device_gain_us=device",
        "host_gain_us=host", "evidence", "end", "missing",
    )  # fmt: skip

    @property
    def shown(self) -> bool:
        return self.status == SHOWN

    @property
    def device(self) -> float | None:
        """The part of the gain that is device time."""
        return None if self.gain is None else self.gain - (self.host or 0.0)


def advise(gap: Gap) -> list[Advice]:
    """What the evidence supports, the largest gain first; then what the work suggests, then what was not counted."""
    known = signs(gap)
    holding = {rule.name: (rule, status) for rule in rules() if (status := rule.status(known))}
    offered: list[tuple[Rule, Advice]] = []
    for rule, status in holding.values():
        move = catalog()[rule.move]
        if any(name in holding and holding[name][1] == SHOWN for name in rule.unless):
            continue
        if (move.direction == "right" and gap.deep_compute) or (move.key == "graph" and gap.sent == GRAPH):
            continue
        gain = GAINS[rule.gain](gap, known)
        gain = None if gain is None else min(gain, gap.measured)
        host = None if gain is None else _host_gain(gap, move, gain)
        if gain is None or gain + (host or 0.0) >= MIN_RELATIVE_GAIN[status] * gap.measured:
            offered.append((rule, _advice(gap, rule, status, move, gain, host, known)))
    # a cause that was not counted has no place beside one that explains the gap
    explained = max((item.device or 0.0 for _, item in offered if item.shown), default=0.0)
    unexplained = explained < MIN_EXPLAINED * (gap.measured - gap.target.achievable)
    kept = [(rule, item) for rule, item in offered if item.shown or rule.possible or unexplained]
    # suggestions that follow from the work itself come before causes without any sign
    kept.sort(key=lambda pair: (not pair[1].shown, not pair[0].possible, -(pair[1].gain or 0.0)))
    return [item for _, item in kept]


def _advice(
    gap: Gap, rule: Rule, status: str, move: Move, gain: float | None, host: float | None, known: Signs
) -> Advice:
    """`gain` is that on the device."""
    asked = [name for name in dict.fromkeys(condition.figure for condition in rule.conditions) if name != "device"]
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
        missing=tuple(name for name in asked if name not in known) + _missing_of_host(gap, move),
        host=host,
    )


def _evidence(gap: Gap, rule: Rule, asked: Sequence[str], known: Signs) -> tuple[str, ...]:
    values = {name: known[name] for name in asked if name in known}
    evidence = [f"{name} {value if isinstance(value, str) else show(value, '', 3)}" for name, value in values.items()]
    if rule.gain == "fuse" and gap.between is not None:
        evidence.append(f"{gap.between.tensor}, {show(gap.between.bytes, 'B', 3)}, is shared with {gap.between.other}")
    return tuple(evidence)


def _end(gap: Gap, move: Move, gain: float | None) -> End | None:
    """Never right of the algorithm's intensity, never above the roof there."""
    flops, before, needs = gap.counts.flops, gap.counts.intensity, gap.work.needs
    memory, engine = needs.get(gap.target.main), needs.get(gap.counts.engine or "")
    if gain is None or flops is None or before is None or memory is None or engine is None or gain >= gap.measured:
        return None
    after, intensity = gap.measured - gain, before
    if "bytes" in move.effect and gap.target.intensity is not None:
        # cutting bytes by a factor moves along the roof, so x grows as far as y does
        intensity = max(min(before * gap.measured / after, gap.target.intensity), before)
    peak = float("inf") if move.key == "engine" else engine.rate
    return End(intensity, min(flops / after, peak, intensity * memory.rate))


def _host_gain(gap: Gap, move: Move, device: float) -> float | None:
    """What a move saves of the waiting for the host; None where that is not known, or not whether there is any.

    Many kernels become one launch. Before: max(launches x each - measured, 0). After: max(each - (measured - device), 0).
    Negative where the device gets faster than the host can send.
    """
    if not move.joins_launches or gap.sent is None:
        return None
    before, after = gap.waiting, gap.waits(1.0, gap.measured - device)
    return None if before is None or after is None else before - after


def _host_evidence(gap: Gap, move: Move, host: float | None) -> tuple[str, ...]:
    """The host's part of a gain, or of what it would be if the kernels are sent one by one."""
    time = gap.waiting if host is None else host
    if not move.joins_launches or gap.host is None or not time:
        return ()
    part = "more if they are sent one by one" if host is None else "of it"
    return (f"{Cause.HOST_WAIT.value}: {show(time, 's', 3)} {part} ({gap.host.evidence})",)


def _missing_of_host(gap: Gap, move: Move) -> tuple[str, ...]:
    """What would have to be known to price the host: what it takes to send a kernel, and whether it sends each."""
    if not move.joins_launches or gap.measurement.launches < 2 or gap.sent == GRAPH:
        return ()
    return (*(("dispatch",) if gap.host is None else ()), *(("sent",) if gap.sent is None else ()))
