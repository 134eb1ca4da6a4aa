"""The text of a gap report: coverage, verdict, largest gaps, findings; every number comes from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.units import counted, percent, show
from ..core.work import WRITE
from ..prediction.simple import TUNED_BAND
from .accounting import Cause
from .advice import Advice
from .gap import Gap
from .regime import COMPUTE, COUNTERS, LATENCY, MEMORY, MIN_LIMITER_SHARE, OVERHEAD, bound_by, unit_name

MIN_TUNED_SHARE = TUNED_BAND[0]  # of the stated roofline
MIN_SHARE_WITHOUT_FAULT = 0.5
NEAR_ROOFLINE_SHARE = 0.9  # of the stated roofline, which few kernels exceed
ROOFLINE_TOLERANCE = 1.03  # share of roofline that errors of measured ceilings explain
EXPECTED_TOLERANCE = 1.1  # of the time of a kernel without faults, up to which it is as expected
MIN_COUNT_DIFFERENCE = 0.05  # relative, from which counts are worth a sentence
# Usual faults of kernels far below the roofline, by the kind of machine.
FAULTS = {
    "gpu": "tile shape, dtype path, no tensor cores, low occupancy",
    "cpu": "scalar code, one thread, several passes over the data",
}
LAUNCH_BOUND = "launch-bound: the roofline does not apply"
NO_COUNTERS = {"gpu": "ridgeline profile --with ncu", "cpu": "perf stat or likwid-perfctr"}
TUNED = "typical of tuned kernels; look elsewhere"


def gap_band(gap: Gap) -> str:
    if gap.regime.bound == OVERHEAD:
        return LAUNCH_BOUND
    if gap.share > ROOFLINE_TOLERANCE:
        return above_roofline(gap)
    if gap.share <= NEAR_ROOFLINE_SHARE and as_expected(gap):
        return TUNED
    return band(gap.share, gap.target.ceiling_kind, gap.target.machine.kind)


def band(share: float, ceilings: str = "stated", machine: str = "gpu") -> str:
    """The meaning of a share of roofline; kernels can reach measured ceilings, which include the usual losses."""
    if share > ROOFLINE_TOLERANCE:
        return f"above the roofline ({percent(share)})"
    if share > NEAR_ROOFLINE_SHARE:
        return "at the roofline" if ceilings == "measured" else "near the stated roofline; check for cache hits"
    if share >= MIN_TUNED_SHARE:
        return TUNED
    if share >= MIN_SHARE_WITHOUT_FAULT:
        return "below typical tuned kernels"
    return f"far below the roofline: suspect {FAULTS.get(machine, FAULTS['gpu'])}"


def above_roofline(gap: Gap) -> str:
    """`above the roofline (138 %): ` and the reason, as far as the data show it."""
    return f"above the roofline ({percent(gap.share)}): {_above_reason(gap)}"


def _above_reason(gap: Gap) -> str:
    target, work = gap.target, float(gap.target.work.footprint)
    if target.bound == MEMORY and gap.counts.bytes is None:
        for level in target.machine.levels[:-1]:
            if level.total and work <= level.total:
                size = f"{show(work, 'B', 3)} working set fits in {unit_name(level.name)}"
                return f"the {size} ({show(level.total, 'B', 3, binary=True)}), so a warm cache served the data"
    if gap.counts.flops is None and target.bound == COMPUTE:
        return "check the FLOP count, the dtype and dense against sparse"
    if target.ceiling_kind == "measured":
        return "the measured ceiling is too low or the counts are too high; run `ridgeline measure` again"
    return "check the counts, the dtype and dense against sparse"


def bound_text(gap: Gap) -> str:
    """`memory-bound (HBM)`, `instruction-issue-bound (predicted: HBM-bound)`, `latency-bound`."""
    observed, predicted = gap.regime, gap.target.limiter
    if observed.bound == OVERHEAD:
        return "launch-bound"
    if observed.bound == LATENCY:
        return "latency-bound" if observed.basis == COUNTERS else "limiter unknown without counters"
    if observed.limiter == predicted or not predicted:
        return f"{observed.bound}-bound ({unit_name(observed.limiter)})"
    return f"{bound_by(observed.limiter)} (predicted: {bound_by(predicted)})"


def kernel_bound(gap: Gap | None, short: bool = False) -> str:
    """The bound of a profiled kernel: `memory (HBM)` or in short `HBM`, `latency`, `-` where nothing was counted."""
    if gap is None:
        return "-"
    if not gap.regime.limited:
        return "launch" if gap.regime.bound == OVERHEAD else gap.regime.bound
    unit = "issue" if gap.regime.limiter == "issue" else unit_name(gap.regime.limiter)
    return unit if short else f"{gap.regime.bound} ({unit})"


def kernel_judgement(gap: Gap | None) -> str:
    """What to say of a kernel without any cause."""
    if gap is None:
        return "no counters"
    if as_expected(gap):
        return "as fast as expected"
    return "no rule matches its counters" if gap.regime.basis == COUNTERS else "no counters"


def as_expected(gap: Gap) -> bool:
    """Whether the time is within what the tool itself expects of a kernel without faults."""
    return gap.measured <= EXPECTED_TOLERANCE * gap.achievable


def findings(gap: Gap) -> tuple[str, ...]:
    """What the counts show."""
    texts = (_above(gap), _bytes(gap), _flops(gap), _regime(gap), _waiting(gap), *gap.notes)
    return tuple(text for text in texts if text)


def _above(gap: Gap) -> str:
    error = gap.uncertainty["vertical" if gap.vertical else "total"] or 0.0
    return above_roofline(gap) if gap.share > max(ROOFLINE_TOLERANCE, 1 + error) else ""


def _bytes(gap: Gap) -> str:
    excess, moved, target = gap.excess_bytes, gap.counts.bytes, gap.target
    if excess is None or moved is None or abs(excess - 1) < MIN_COUNT_DIFFERENCE:
        return ""
    level = unit_name(target.main)
    counted = f"{level} traffic {show(moved, 'B', 3)}, {excess:.2f}x the algorithmic {show(target.bytes, 'B', 3)}"
    if excess > 1:
        return f"{counted}; {_price(gap, Cause.EXTRA_TRAFFIC)}"
    cache = target.machine.levels[-2] if len(target.machine.levels) > 1 else None
    missing, size = target.bytes - moved, cache.total if cache else None
    if target.fused:
        reason = "the fused kernel does not move the intermediate tensors"
    elif cache is not None and size is not None and missing <= size:
        what = "outputs not yet written back" if missing <= target.moved(WRITE) else "inputs and outputs"
        reason = f"{unit_name(cache.name)} ({show(size, 'B', 3, binary=True)}) holds the {what}"
    else:
        reason = "more than a cache can hold; check the count, or the algorithm reads less than its definition"
    return f"{counted}: {reason}"


def _flops(gap: Gap) -> str:
    excess, engine = gap.excess_flops, gap.counts.engine
    if excess is None:
        if gap.target.engine and gap.counts.no_flops and not gap.target.matrix_flops:
            return "no FLOPs counted: counters do not count compares, selects and special functions"
        return ""
    if abs(excess - 1) < MIN_COUNT_DIFFERENCE:
        return ""
    if excess < 1:
        return (
            f"{excess:.2f}x the algorithmic FLOPs: an algorithm with fewer (Winograd, skipped masks), or a high count"
        )
    tensor = engine is not None and engine.startswith("tensor")
    reason = "tile padding" if tensor else "instructions beyond the definition"
    return f"{excess:.2f}x the algorithmic FLOPs on {engine} ({reason}); {_price(gap, Cause.EXTRA_WORK)}"


def _price(gap: Gap, cause: Cause) -> str:
    """The cost of an excess, or the unit that hides it."""
    time = gap.time_of(cause)
    if time:
        return f"costs {show(time, 's', 3)}"
    needs = gap.work.needs
    longer = unit_name(max(needs, key=lambda name: needs[name].time)) if needs else "launch latency"
    return f"harmless: {longer} takes longer"


def _regime(gap: Gap) -> str:
    observed, predicted = gap.regime, gap.target
    if observed.confirmed and observed.limiter in (predicted.limiter, "launch"):
        return ""
    expected = f"predicted: {bound_by(predicted.limiter)}"
    if observed.bound == LATENCY:
        busiest = f"; {unit_name(observed.limiter)} is at {percent(observed.share)}" if observed.limiter else ""
        limit = f"no unit is above {percent(MIN_LIMITER_SHARE)} utilization{busiest}"
        name = "latency-bound: " if observed.basis == COUNTERS else "by time only, "
        return f"{name}{limit} ({expected})"
    name = bound_by(observed.limiter)
    return f"{name}: {unit_name(observed.limiter)} is at {percent(observed.share)} utilization ({expected})"


def _waiting(gap: Gap) -> str:
    if not gap.waiting or gap.host is None:
        return ""
    condition = "" if gap.sent else "if launched one by one, "
    wait = f"{_at_most(gap.host.at_most)}{show(gap.waiting, 's', 3)}"
    launches = f"{gap.measurement.launches:,.0f} launches"
    return f"{condition}{Cause.HOST_WAIT.value} adds {wait} to the kernel time over {launches} ({gap.host.evidence})"


def _at_most(bound: bool) -> str:
    return "at most " if bound else ""


def item_sentence(gap: Gap, top: Advice | None, waits_at_most: bool) -> str:
    """Bound, share of roofline, the gap and its main cause, the move."""
    parts = [f"{bound_text(gap)}, {percent(gap.share)} of roofline", _gap(gap, waits_at_most), action(gap, top)]
    return f"{gap.name}: {'; '.join(dict.fromkeys(part for part in parts if part))}."


def _gap(gap: Gap, waits_at_most: bool) -> str:
    loss, above = gap.largest_loss, gap.measured - gap.target.floor
    wait = f", plus {_wait(gap.waiting, waits_at_most)}" if gap.sent and gap.waiting else ""
    if above <= 0 or gap.regime.bound == OVERHEAD:
        return f"{gap_band(gap)}{wait}"
    return f"{show(above, 's', 3)} above the roofline, mostly {loss.cause} ({show(loss.time, 's', 3)}){wait}"


def _wait(time: float, at_most: bool) -> str:
    return f"{_at_most(at_most)}{show(time, 's', 3)} of {Cause.HOST_WAIT.value}"


def action(gap: Gap, top: Advice | None, runs: float = 1.0) -> str:
    """The move with its gain over all runs and its cause; without a shown cause, what is known instead."""
    if top is not None and top.shown:
        gain = "" if top.gain is None else f", saves {show(top.gain * runs, 's', 3)}"
        host = f", {show(top.host * runs, 's', 3)} by fewer launches" if top.host else ""
        beyond = (top.device or 0.0) > max(gap.measured - gap.target.floor, 0.0)
        return f"{top.move}{gain}{host} ({top.name}{'; beyond its present roofline' if beyond else ''})"
    if as_expected(gap):
        return band(gap.share, "measured") if gap.share > NEAR_ROOFLINE_SHARE else TUNED
    if gap.regime.basis == COUNTERS:
        return "no rule matches its counters"
    return f"cause unknown without counters: {NO_COUNTERS.get(gap.target.machine.kind, NO_COUNTERS['gpu'])}"


NOTHING_JOINED = (
    "0 % explained: no observed kernel was joined to a prediction; give NVTX ranges or rows the names of the cases"
)


def coverage(explained: float, time: float, joined: int, observed: int, doubts: int = 0) -> str:
    """`93 % of 8.9 ms explained`, how many observations were joined, and how many of the joins are doubtful."""
    joins = f"{joined} of {observed} kernels joined to predictions{doubtful(doubts)}"
    return f"{percent(explained)} of {show(time, 's', 3)} explained: {joins}"


def program_verdict(verdict: Mapping[str, Any], counted: bool) -> str:
    """Of several items: the dominant bound and the errors; latency-bound is a verdict of counters alone."""
    bound, share = next(iter(verdict["regimes"].items()))
    name = "launch" if bound == OVERHEAD else bound
    held = f"{name}-bound: {percent(share)} of the time is in {name}-bound kernels"
    if bound == LATENCY:
        limit = f"latency-bound: no unit above {percent(MIN_LIMITER_SHARE)} utilization"
        held = f"{limit if counted else 'limiter unknown without counters'} for {percent(share)} of the time"
    hits = f"{verdict['inside']} of {verdict['items']} inside the 80 % interval"
    return f"{held}; median error {percent(verdict['median_error'])}, {hits}"


def doubtful(count: int) -> str:
    """How many joins rest on order or kernel family alone; empty without any."""
    return f"; {counted(count, 'doubtful join')} not counted" if count else ""


def item_verdict(gap: Gap) -> str:
    """Of a single item: bound, share of roofline, error."""
    inside = "inside" if gap.inside else "outside"
    return (
        f"{bound_text(gap)}, {percent(gap.share)} of roofline; "
        f"error {'+' if gap.error > 0 else ''}{percent(gap.error)}, {inside} the 80 % interval"
        f"{f'; doubtful, joined by {gap.how} alone' if gap.doubtful else ''}"
    )


def host_overhead(waiting: float | None, at_most: bool) -> str:
    """The host launch overhead as a line; empty without any."""
    return f"{Cause.HOST_WAIT.value}: {_at_most(at_most)}{show(waiting, 's', 3)} in addition" if waiting else ""


def largest_gap(gaps: Sequence[Mapping[str, Any]]) -> str:
    """The largest gap as a sentence; empty without any."""
    if not gaps:
        return ""
    first = gaps[0]
    return f" Largest gap: {first['name']}, {show(first['gap_us'] / 1e6, 's', 3)} above the roofline: {first['next']}."
