"""What a gap, an item and a report say in sentences; every number in them is one of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.units import show
from ..core.work import WRITE
from .accounting import Cause
from .advice import Advice
from .gap import Gap
from .regime import COUNTERS, LAUNCH, MIN_LIMITER_SHARE, OVERHEAD, UNDERUSED

MIN_TUNED_SHARE = 0.65  # of the stated roof, where tuned kernels usually start
MIN_SHARE_WITHOUT_FAULT = 0.5
NEAR_ROOF_SHARE = 0.9  # of the stated roof, which few kernels get beyond
ROOF_TOLERANCE = 1.03  # share of the roof that errors of measured ceilings explain
MIN_COUNT_DIFFERENCE = 0.05  # relative, from which counts are worth a sentence
# What far too slow kernels usually have wrong, by the kind of machine.
FAULTS = {
    "gpu": "tile shape, type path, no tensor cores, too few warps",
    "cpu": "no vector instructions, one thread, several passes over the data",
}
SET_BY_LAUNCHING = "set by launching, not by a roof"
ABOVE_ROOF = "above the roof: measure again; the ceiling is set too low, the count too high, or the data were in cache"


def gap_band(gap: Gap) -> str:
    if gap.regime.bound == OVERHEAD:
        return SET_BY_LAUNCHING
    return band(gap.share, gap.target.ceiling_kind, gap.target.machine.kind)


def band(share: float, ceilings: str = "stated", machine: str = "gpu") -> str:
    """What a share of the roof means; measured ceilings already hold the usual loss, so kernels can reach them."""
    if share > ROOF_TOLERANCE:
        return ABOVE_ROOF
    if share > NEAR_ROOF_SHARE:
        if ceilings == "measured":
            return "at the roof"
        return "near the roof, where few kernels get: measure again; cache hits may stand for memory traffic"
    if share >= MIN_TUNED_SHARE:
        return "where good kernels live: go for the next bottleneck"
    if share >= MIN_SHARE_WITHOUT_FAULT:
        return "below the usual band"
    return f"far below: suspect a fault ({FAULTS.get(machine, FAULTS['gpu'])}) or a limit the model does not have"


def speed(share: float) -> str:
    return "fast" if share >= MIN_TUNED_SHARE else "slow"


def findings(gap: Gap) -> tuple[str, ...]:
    """What the counts say by themselves."""
    texts = (_above_roof(gap), _bytes(gap), _flops(gap), _regime(gap), _waiting(gap), *gap.notes)
    return tuple(text for text in texts if text)


def _above_roof(gap: Gap) -> str:
    error = gap.uncertainty["vertical" if gap.vertical else "total"] or 0.0
    if gap.share <= max(ROOF_TOLERANCE, 1 + error):
        return ""
    return (
        f"{gap.share:.2f} of the roof: above it by more than the figures err; measure again, "
        "and check the count of the work, the engine that is compared with (dense or sparse) and the ceiling"
    )


def _bytes(gap: Gap) -> str:
    excess, moved, target = gap.excess_bytes, gap.counts.bytes, gap.target
    if excess is None or moved is None or abs(excess - 1) < MIN_COUNT_DIFFERENCE:
        return ""
    counted = f"{show(moved, 'B', 3)} at {target.main} where the algorithm needs {show(target.bytes, 'B', 3)}"
    if excess > 1:
        return f"{counted}: {excess:.2f} x, {_price(gap, Cause.EXTRA_TRAFFIC)}"
    cache = target.machine.levels[-2] if len(target.machine.levels) > 1 else None
    missing, size = target.bytes - moved, cache.total if cache else None
    if target.fused:
        why = "one kernel did several steps, and what passes between them need not be moved"
    elif cache is not None and size is not None and missing <= size:
        outputs = missing <= target.moved(WRITE)
        what = "outputs that were not written back yet" if outputs else "inputs and outputs"
        why = f"{cache.name} kept it: it holds {show(size, 'B', 3, binary=True)}, enough for {what}"
    else:
        why = "more than a cache could keep: check the count, or the algorithm reads less than its definition"
    return f"{counted}: {excess:.2f} x; {why}"


def _flops(gap: Gap) -> str:
    excess, engine = gap.excess_flops, gap.counts.engine
    if excess is None:
        if gap.target.engine and gap.counts.no_flops and not gap.target.matrix_flops:
            return "no flops counted: compares, selects and special functions are none to the counters"
        return ""
    if abs(excess - 1) < MIN_COUNT_DIFFERENCE:
        return ""
    if excess < 1:
        return f"{excess:.2f} x the algorithm's flops: an algorithm with fewer (Winograd, Strassen, skipped masks), or the count is too high"
    tensor = engine is not None and engine.startswith("tensor")
    why = "padding of tiles" if tensor else "instructions beyond the definition's count"
    return f"{excess:.2f} x the algorithm's flops on {engine}: {why}, {_price(gap, Cause.EXTRA_WORK)}"


def _price(gap: Gap, cause: Cause) -> str:
    """What an excess costs, or what hides it."""
    time = gap.time_of(cause)
    if time:
        return f"which costs {show(time, 's', 3)}"
    needs = gap.work.needs
    return f"harmless: {max(needs, key=lambda name: needs[name].time) if needs else 'launching'} takes longer"


def _regime(gap: Gap) -> str:
    observed, predicted = gap.regime, gap.target
    if observed.confirmed and observed.limiter in (predicted.limiter, LAUNCH):
        return ""
    lead = f"predicted {predicted.bound} ({predicted.limiter}), seen"
    if observed.bound == UNDERUSED:
        busiest = f"; the busiest, {observed.limiter}, is at {observed.share:.0%}" if observed.limiter else ""
        return f"{lead}: nothing is busy for {MIN_LIMITER_SHARE:.0%} of the time{busiest} (from {observed.basis})"
    return f"{lead} {observed.bound}: {observed.limiter} is busy for {observed.share:.0%} of the time (from {observed.basis})"


def _waiting(gap: Gap) -> str:
    if not gap.waiting or gap.host is None:
        return ""
    condition = "" if gap.sent else "where they are sent one by one, "
    return (
        f"{condition}the device waits {_at_most(gap.host.at_most)}{show(gap.waiting, 's', 3)} for the host between "
        f"{gap.measurement.launches:,.0f} kernels, beside the measured time ({gap.host.evidence})"
    )


def _at_most(bound: bool) -> str:
    return "at most " if bound else ""


def item_sentence(gap: Gap, top: Advice | None, waits_at_most: bool) -> str:
    """Fast because X; the gap is Y; next is Z."""
    gap_text, next_text = _gap(gap, waits_at_most), _next(gap, top, waits_at_most)
    return f"{gap.name}: {_because(gap)}; the gap is {gap_text}; next is {next_text}."


def _because(gap: Gap) -> str:
    observed, predicted = gap.regime, gap.target.limiter
    if observed.bound == OVERHEAD:
        return f"short, not slow, because launching takes {observed.share:.0%} of the time"
    if observed.bound == UNDERUSED:
        busiest = f"; the busiest, {observed.limiter}, is at {observed.share:.0%}" if observed.basis == COUNTERS else ""
        return f"{speed(gap.share)} because nothing limits it{busiest} ({gap.share:.0%} of the roof)"
    compared = "as predicted" if observed.limiter == predicted else f"where {predicted} was predicted"
    return f"{speed(gap.share)} because {observed.limiter} is busy for {observed.share:.0%} of the time, {compared}"


def _gap(gap: Gap, waits_at_most: bool) -> str:
    loss, above = gap.largest_loss, gap.measured - gap.target.floor
    if above <= 0:
        return f"none: {show(-above, 's', 3)} below the floor"
    wait = f", and {_wait(gap.waiting, waits_at_most)}" if gap.sent and gap.waiting else ""
    return f"{show(above, 's', 3)} above the floor, most of it {loss.cause} ({show(loss.time, 's', 3)}){wait}"


def _wait(time: float, at_most: bool) -> str:
    return f"{_at_most(at_most)}{show(time, 's', 3)} of {Cause.HOST_WAIT.value}"


def _next(gap: Gap, top: Advice | None, waits_at_most: bool) -> str:
    if top is None:
        if gap.share >= MIN_TUNED_SHARE:
            return "another kernel"
        counted = gap.regime.basis == COUNTERS
        return "a closer look: no rule fits these counters" if counted else "counters, which would tell the cause"
    at_most = _at_most(not top.shown or bool(top.host and waits_at_most))
    gain = "" if top.gain is None else f", {at_most}{show(top.gain, 's', 3)}"
    return f"{'' if top.shown else 'perhaps '}to {top.move}{gain}"


NOTHING_JOINED = (
    "nothing that was observed could be joined to what was predicted, so nothing can be said; "
    "give ranges or rows the names of the cases"
)


def program_sentence(
    verdict: Mapping[str, Any], losses: Mapping[str, float], median_error: float, waits_at_most: bool
) -> str:
    """Of several items; `losses` are microseconds by cause beyond the floor."""
    measured, floor = verdict["measured_us"] / 1e6, verdict["floor_us"] / 1e6
    holder, held = verdict["holders"][0]["name"], f"{verdict['holders'][0]['share']:.0%}"
    bound, share = next(iter(verdict["regimes"].items()))
    regime = "nothing is busy for" if bound == UNDERUSED else f"{bound} has"
    cause = max(losses, key=lambda name: losses[name])
    waited, worth = verdict["waiting_us"], verdict["worth_most"]
    wait = f", and {_wait(waited / 1e6, waits_at_most)} beside it" if waited else ""
    move = f"{holder}, which holds {held} of the time"
    if worth:
        move = f"to {worth['move']} in {worth['name']}, {show(worth['gain_us'] / 1e6, 's', 3)}"
    return (
        f"{verdict['items']} steps in {show(measured, 's', 3)}, predicted within {median_error:.0%} in the middle: "
        f"{speed(floor / measured)} because {regime} {share:.0%} of the time and {holder} holds {held}; "
        f"the gap is {show(measured - floor, 's', 3)} above the floor, "
        f"most of it {cause} ({show(losses[cause] / 1e6, 's', 3)}){wait}; next is {move}."
    )
