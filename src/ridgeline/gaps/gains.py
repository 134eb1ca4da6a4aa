"""What a move brings, in seconds of device time: one function per formula, by the name that `rules.toml` gives it.

None where it cannot be told. No move is credited with more than its limit allows: the achievable time of a kernel without
faults, the arithmetic that stays, the measured time.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.machine import MAIN
from ..core.work import READ
from ..prediction.host import graph_node_share, launch_latency
from .accounting import Cause
from .gap import Gap
from .regime import MEMORY
from .rules import Signs
from .signs import SECTOR, faster_engine
from .target import longest

WARP = 32  # threads

Gain = Callable[[Gap, Signs], float | None]
GAINS: dict[str, Gain] = {}


def _gain(formula: Gain) -> Gain:
    GAINS[formula.__name__] = formula
    return formula


def _down_to(gap: Gap, time: float) -> float:
    """From the measured time to another one, or to the achievable one where that is longer."""
    return gap.measured - max(gap.target.achievable, time)


def _at_most(gap: Gap, seconds: float) -> float:
    """So many seconds, or all down to the achievable time where that is less."""
    return min(seconds, gap.measured - gap.target.achievable)


def _scaled(gap: Gap, factor: float | str | None) -> float:
    """The time times a factor; all down to the achievable time where the factor was not counted."""
    return _down_to(gap, gap.measured * factor if isinstance(factor, float) else 0.0)


# -- down to what is achievable -------------------------------------------------------------------------------


@_gain
def reach(gap: Gap, signs: Signs) -> float | None:
    return _down_to(gap, 0.0)


@_gain
def up(gap: Gap, signs: Signs) -> float | None:
    """To the achievable share of the limiter, at the counts as they are."""
    return _down_to(gap, longest(gap.work.needs) / gap.target.achievable_share + gap.target.launch)


@_gain
def waste(gap: Gap, signs: Signs) -> float | None:
    wasted = signs.get("wasted")
    return _down_to(gap, gap.measured / wasted if isinstance(wasted, float) else 0.0)


@_gain
def inner(gap: Gap, signs: Signs) -> float | None:
    return _down_to(gap, gap.measured / float(signs["l2_excess"]))


@_gain
def divergence(gap: Gap, signs: Signs) -> float | None:
    threads = signs.get("threads_per_instruction")
    return _scaled(gap, threads / WARP if isinstance(threads, float) else None)


@_gain
def blocks(gap: Gap, signs: Signs) -> float | None:
    return _scaled(gap, signs.get("block_share"))


@_gain
def fill(gap: Gap, signs: Signs) -> float | None:
    """Per problem, when as many are done at once as the machine holds."""
    share = signs.get("fill")
    if not isinstance(share, float):
        return None
    return gap.measured - max(gap.target.floor / gap.target.achievable_share, gap.measured * share)


@_gain
def traffic(gap: Gap, signs: Signs) -> float | None:
    if gap.counts.bytes is None:
        return None
    extra = gap.time_of(Cause.EXTRA_TRAFFIC)
    if gap.regime.bound == MEMORY:
        extra = max(extra, extra / gap.share)  # at the rate that the limiter reaches
    return _at_most(gap, extra)


@_gain
def spills(gap: Gap, signs: Signs) -> float | None:
    """The share that local memory has of the traffic at L1."""
    sectors, through = gap.measurement.counters.get("local_sectors"), gap.measurement.bytes.get("l1")
    if sectors is None or not through:
        return None if "spilled" in signs else reach(gap, signs)
    return _at_most(gap, gap.measured * min(SECTOR * sectors / through, 1.0))


@_gain
def conflicts(gap: Gap, signs: Signs) -> float | None:
    """A conflict costs its multiprocessor a cycle."""
    count, sms = gap.measurement.counters.get("bank_conflicts"), gap.measurement.counters.get("sms")
    clock = gap.measurement.conditions.get("sm_clock")
    if count is None:
        return reach(gap, signs)
    return _at_most(gap, count / (sms * clock)) if sms and isinstance(clock, float) else None


# -- another engine, less work, fewer launches ----------------------------------------------------------------


@_gain
def engine(gap: Gap, signs: Signs) -> float | None:
    name, factor = faster_engine(gap)
    if not name or factor is None:
        return None
    flops = gap.counts.flops or gap.target.flops
    # traffic at the caches depends on the kernel, and this would be another one
    others = [
        need.time
        for label, need in gap.work.needs.items()
        if label != gap.counts.engine and label not in gap.counts.inner
    ]
    peak = gap.target.machine.peak(name, gap.target.ceilings).value
    return gap.measured - max([flops / peak, *others]) / gap.target.achievable_share - gap.target.launch


@_gain
def padding(gap: Gap, signs: Signs) -> float | None:
    return gap.time_of(Cause.EXTRA_WORK)


def _launching(gap: Gap) -> float:
    return gap.measurement.launches * launch_latency(gap.target.machine)


@_gain
def graph(gap: Gap, signs: Signs) -> float | None:
    return _launching(gap) * (1 - graph_node_share())


@_gain
def launch(gap: Gap, signs: Signs) -> float | None:
    return min(_launching(gap), gap.measured)


# -- fewer bytes ----------------------------------------------------------------------------------------------


@_gain
def fuse(gap: Gap, signs: Signs) -> float | None:
    """One write and one read of the tensor between, and a launch."""
    main = gap.target.main
    if gap.between is None or main not in gap.target.needs:
        return None
    moved = 2 * gap.between.bytes / gap.target.needs[main].rate
    return min(moved + launch_latency(gap.target.machine), gap.measured)


def _largest_share(gap: Gap, *ways: str) -> float | None:
    """The share of the bytes at the main memory that one tensor has in one direction, at most."""
    moves = gap.target.work.moves.items()
    sizes = [float(value) for (level, _, way), value in moves if level == MAIN and (not ways or way in ways)]
    return max(sizes) / gap.target.bytes if sizes and gap.target.bytes else None


@_gain
def quantise(gap: Gap, signs: Signs) -> float | None:
    """Half the bytes of the tensor that is read most."""
    return gap.measured * (_largest_share(gap, READ) or 0.0) / 2


@_gain
def rows(gap: Gap, signs: Signs) -> float | None:
    """Per row, when the tensor that is read most serves twice as many: never below what their arithmetic takes."""
    halved = gap.measured * (1 - (_largest_share(gap, READ) or 0.0) / 2)
    return gap.measured - max(halved, longest(gap.target.needs, "compute"))


@_gain
def tensor(gap: Gap, signs: Signs) -> float | None:
    """The largest tensor need not be moved."""
    share = _largest_share(gap)
    return None if share is None else gap.measured * share


# -- without a price on the device ----------------------------------------------------------------------------


@_gain
def nothing(gap: Gap, signs: Signs) -> float | None:
    """On the device; what the host no longer takes comes with every move that joins launches."""
    return 0.0


@_gain
def unknown(gap: Gap, signs: Signs) -> float | None:
    return None
