"""What to try next: moves, and rules that tell from a gap which of them the evidence supports and what each would bring.

The rules are data (`rules.toml`): conditions over figures, a cause, a move, a formula for the gain. A rule whose counters
were read and hold is shown, with their values as evidence; one whose counters were not read is possible; one that they
contradict is left out. Gains are seconds from the model: no move is credited with more than its own limit allows.

A move that makes one launch of many also saves waiting for the host: gain = device gain + waiting before - waiting after,
where the kernels are known to be sent one by one. Both parts are told apart.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from math import fsum
from typing import Any

from ..core.errors import unknown
from ..core.machine import MAIN, Machine
from ..core.roofline import attainable, ridge
from ..core.units import show
from ..core.work import READ
from ..prediction.host import GRAPH, graph_node_share, launch_latency
from .gap import EXTRA, REACH, TRAFFIC, WAITING, Gap

LEAST = {"shown": 0.01, "possible": 0.05}  # of the measured time: a smaller gain is not worth a word
EXPLAINED = 0.9  # of what could be gained
SECTOR = 32.0  # bytes
SCATTERED = 8.0  # sectors per request from which a poor use of them is scattered access, not one address for all
FULL_VECTORS = 16.0  # sectors of a request that loads 16 bytes per thread side by side
IDLE = ("selected", "not_selected")  # not stalls

Figures = Mapping[str, float | str]


# -- the table ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    key: str
    name: str
    changes: str
    effect: tuple[str, ...]  # bytes, rate, flops, launches
    kind: str
    bounds: tuple[str, ...]
    when: str
    limit: str

    @property
    def direction(self) -> str:
        """On the chart of observed intensity: fewer bytes go right, a better use of the limiter goes up."""
        right = "bytes" in self.effect
        up = not right or "rate" in self.effect or "launches" in self.effect
        return "both" if right and up else "right" if right else "up"

    @property
    def joins(self) -> bool:
        """Whether one launch takes the place of many; a larger batch only gives each more to do."""
        return "launches" in self.effect and "rate" not in self.effect


@dataclass(frozen=True)
class Condition:
    """`figure sign value`; words may be alternatives, `stall = wait | barrier`."""

    figure: str
    sign: str
    value: float | tuple[str, ...]

    def holds(self, figures: Figures) -> bool | None:
        """None where the figure is not known."""
        found = figures.get(self.figure)
        if found is None:
            return None
        if isinstance(self.value, tuple):
            return found in self.value
        return bool(SIGNS[self.sign](found, self.value))


SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    name: str
    group: str
    cause: str
    move: str
    gain: str
    applies: tuple[Condition, ...] = ()
    sign: tuple[Condition, ...] = ()
    unless: tuple[str, ...] = ()
    shown: str = ""  # evidence that needs no counters
    possible: bool = False  # a suggestion, whatever the counters say
    only_shown: bool = False  # nothing to say without counters

    def status(self, figures: Figures) -> str:
        """shown, possible, or empty where it does not hold."""
        told = [condition.holds(figures) for condition in self.applies + self.sign]
        if False in told or (None in told and self.only_shown):
            return ""
        certain = None not in told and (bool(self.sign) or bool(self.shown)) and not self.possible
        return "shown" if certain else "possible"


def _condition(text: str) -> Condition:
    figure, sign, value = text.split(" ", 2)
    try:
        return Condition(figure, sign, float(value))
    except ValueError:
        return Condition(figure, sign, tuple(word.strip() for word in value.split("|")))


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("rules.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def catalog() -> dict[str, Move]:
    """All moves by key."""
    found = []
    for row in _table()["move"]:
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        found.append(Move(**lists))
    return {move.key: move for move in found}


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    found = []
    for row in _table()["rule"]:
        conditions = {name: tuple(map(_condition, row.get(name, ()))) for name in ("applies", "sign")}
        found.append(Rule(**{**row, **conditions, "unless": tuple(row.get("unless", ()))}))
    return tuple(found)


def moves(bound: str) -> tuple[Move, ...]:
    """What helps under a bound, when nothing else is known."""
    found = tuple(move for move in catalog().values() if bound in move.bounds)
    if not found:
        raise unknown("bound", bound, {name for move in catalog().values() for name in move.bounds})
    return found


def causes(group: str) -> tuple[str, ...]:
    """The known causes of a kind of gap: `memory gap`, `compute gap`, `extra bytes` ..."""
    found = tuple(rule.cause for rule in rules() if rule.group == group)
    if not found:
        raise unknown("kind of gap", group, {rule.group for rule in rules()})
    return found


def decode() -> tuple[Move, ...]:
    """What helps when tokens are generated one at a time."""
    return tuple(catalog()[key] for key in _table()["decode"]["moves"])


def flow() -> dict[str, Any]:
    """The decision flow: what to measure, the question, and the moves of either answer."""
    table = _table()["flow"]
    return {
        "measure": table["measure"],
        "question": table["question"],
        **{side: tuple(catalog()[key] for key in table[side]) for side in ("memory", "compute")},
    }


# -- from four numbers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recommendation:
    side: str
    name: str  # low, moderate or high efficiency
    efficiency: float
    moves: tuple[Move, ...]
    causes: tuple[str, ...]  # possible ones, of a point below its roof


def recommend(rate: float, intensity: float, peak: float, bandwidth: float) -> Recommendation:
    """The short answer where only rate, intensity and two ceilings are known: which side, how near its roof, what then."""
    side = "memory" if intensity < ridge(peak, bandwidth) else "compute"
    efficiency = rate / float(attainable(intensity, peak, bandwidth))
    level = next(row for row in _table()["level"] if row["side"] == side and efficiency < row["below"])
    below = causes(f"{side} gap") if efficiency < REACH["stated"] else ()
    return Recommendation(side, level["name"], efficiency, tuple(catalog()[key] for key in level["moves"]), below)


# -- figures ------------------------------------------------------------------------------------------------


def figures(gap: Gap, machine: Machine) -> dict[str, float | str]:
    """All that the conditions may ask of a gap; what is not known is not there."""
    target, seen = gap.target, gap.seen
    latency = launch_latency(machine)
    compute = max((need.time for need in target.needs.values() if need.side == "compute"), default=0.0)
    memory = max((need.time for need in target.needs.values() if need.side == "memory"), default=0.0)
    known: dict[str, float | str | None] = {
        **{name: value for name, value in seen.counters.items() if not name.startswith(("stall.", "roof."))},
        "share": gap.share,
        "vertical": gap.vertical,
        "horizontal": gap.horizontal,
        "excess_bytes": gap.excess_bytes,
        "excess_flops": gap.excess_flops,
        "device": machine.kind or "gpu",
        "bound_predicted": target.bound,
        "bound_seen": gap.regime.bound,
        "matrix": "yes" if target.matrix else "no",
        "weights": "no" if target.work.family == "attention" else "yes",
        "algorithm_over_ridge": compute / memory if memory else None,
        "deep": "yes" if gap.deep else "no",
        "kernels": seen.launches,
        "parts": float(len(seen.kernels)) if seen.kernels else None,
        "kernel_over_launch": gap.measured / seen.launches / latency if latency else None,
        "floor_over_launch": target.floor / latency if latency else None,
        "sent": gap.sent,
        "waiting": None if gap.waiting is None else gap.waiting / gap.measured,
        "between": gap.between.bytes / target.bytes if gap.between and target.bytes else 0.0,
        "together": ("yes" if gap.between.certain else None) if gap.between else "no",
        "faster_engine": _faster(gap, machine)[1],
        **_busy(gap),
        **_access(gap),
    }
    return {name: value for name, value in known.items() if value is not None}


def _busy(gap: Gap) -> dict[str, float | str | None]:
    counted = gap.regime.basis == "counters"
    shares = {share.name: share for share in gap.shares if share.name != "launch"}
    stalls = {
        name.removeprefix("stall."): value
        for name, value in gap.seen.counters.items()
        if name.startswith("stall.") and name.removeprefix("stall.") not in IDLE
    }
    limited = gap.regime.bound in ("compute", "memory")
    return {
        "busiest": max((share.value for share in shares.values()), default=0.0) if counted else None,
        "limiter_side": (gap.regime.bound if limited else "none") if counted else None,
        "limiter": (gap.regime.limiter if limited else "none") if counted else None,
        "main_share": shares[gap.main].value if counted and gap.main in shares else None,
        "engine": gap.ran.partition(".")[0] if gap.ran else None,
        "engine_share": (shares[gap.ran].value if gap.ran in shares else 0.0) if counted else None,
        "asynchronous": "yes" if max(gap.seen.counters.get(name, 0.0) for name in ("copy_busy", "tma")) > 0 else "no",
        "stall": max(stalls, key=lambda name: stalls[name]) if stalls else None,
    }


def _access(gap: Gap) -> dict[str, float | str | None]:
    """How memory was accessed: use of sectors, traffic inside, conflicts, spills, blocks."""
    counters, moved, target = gap.seen.counters, gap.seen.bytes, gap.target
    reads = target.moved(READ)
    inner = moved.get("l1", moved.get("l2"))
    intensity = gap.flops / inner if gap.flops and inner else None
    own = target.flops / target.bytes if target.bytes else 0.0
    wavefronts, blocks, sms = (counters.get(name) for name in ("shared_wavefronts", "blocks", "sms"))
    conflicts = counters.get("bank_conflicts")
    waves = counters.get("waves")
    block_share = blocks / sms if blocks is not None and sms else None
    spilled = [counters[name] for name in ("spills", "local_sectors") if name in counters]
    return {
        "wasted": _wasted(counters),
        "l2_excess": counters["l2_to_sm"] / reads if "l2_to_sm" in counters and reads else None,
        "inner_intensity": intensity,
        "reuse_lost": own / intensity if intensity else None,
        "conflict_share": _over(conflicts, wavefronts),
        "spilled": max(spilled) if spilled else None,
        "block_share": block_share,
        "fill": waves or block_share,
    }


def _over(part: float | None, whole: float | None) -> float | None:
    """A share; none of nothing is 0."""
    return None if part is None or whole is None else part / whole if whole else 0.0


def _wasted(counters: Mapping[str, float]) -> float | None:
    """Bytes fetched per byte used, of the worse of loads and stores; 1 where requests touch few sectors."""
    found = []
    for way in ("load", "store"):
        sectors, used = counters.get(f"sectors_per_{way}"), counters.get(f"bytes_per_sector_{way}")
        if sectors is None:
            continue
        if sectors < SCATTERED:
            found.append(1.0)
        else:
            found.append(SECTOR / used if used else max(sectors / FULL_VECTORS, 1.0))
    return max(found) if found else None


NEAREST = {"fp32": "tf32"}  # the format of the tensor units that takes the same numbers


def _faster(gap: Gap, machine: Machine) -> tuple[str, float | None]:
    """The tensor engine that could do the products in the same format or the nearest, and how much faster it is."""
    ran = gap.ran or gap.target.engine
    engine, _, dtype = ran.partition(".")
    if gap.target.matrix and engine == "vector" and ran in machine.peaks:
        for name in (gap.target.engine, f"tensor.{dtype}", f"tensor.{NEAREST.get(dtype, dtype)}"):
            figure = machine.peaks.get(name)
            value = figure.value(gap.target.ceilings) if figure and name.startswith("tensor.") else None
            if value is not None:
                return name, value / machine.peak(ran, gap.target.ceilings).value
    vector = machine.peaks.get("vector.fp32")
    reach = vector.value(gap.target.ceilings) if vector else None
    alone = gap.target.flops / reach if reach else 0.0
    if gap.ran or alone > gap.measured or (reach and alone <= gap.target.floor):
        # the tensor units were counted, nothing slower could have been this fast, or the slower ones wait too
        return "", 0.0
    return "", None


# -- gains --------------------------------------------------------------------------------------------------


def _no_less(gap: Gap, after: float) -> float:
    return gap.measured - max(gap.target.best, after)


def _longest(gap: Gap) -> float:
    return max((need.time for need in gap.needs.values()), default=0.0)


def _entry(gap: Gap, cause: str) -> float:
    return fsum(entry.time for entry in gap.accounting if entry.cause == cause)


def _reach(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return gap.measured - gap.target.best


def _up(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """To the band's share of the limiter, at the counts as they are."""
    return _no_less(gap, _longest(gap) / REACH[gap.target.kind] + gap.target.launch)


def _waste(gap: Gap, known: Figures, machine: Machine) -> float | None:
    wasted = known.get("wasted")
    return _no_less(gap, gap.measured / wasted) if isinstance(wasted, float) else _reach(gap, known, machine)


def _inner(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return _no_less(gap, gap.measured / float(known["l2_excess"]))


def _traffic(gap: Gap, known: Figures, machine: Machine) -> float | None:
    if gap.moved is None:
        return None
    extra = _entry(gap, TRAFFIC)
    if gap.regime.bound == "memory":
        extra = max(extra, extra / gap.share)  # at the rate that the limiter reaches
    return min(extra, gap.measured - gap.target.best)


def _spills(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """The share that local memory has of the traffic at L1."""
    sectors, through = gap.seen.counters.get("local_sectors"), gap.seen.bytes.get("l1")
    if sectors is None or not through:
        return None if "spilled" in known else _reach(gap, known, machine)
    return min(gap.measured * min(SECTOR * sectors / through, 1.0), gap.measured - gap.target.best)


def _conflicts(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """A conflict costs its multiprocessor a cycle."""
    conflicts, sms = gap.seen.counters.get("bank_conflicts"), gap.seen.counters.get("sms")
    clock = gap.seen.conditions.get("sm_clock")
    if conflicts is None:
        return _reach(gap, known, machine)
    if not sms or not isinstance(clock, float):
        return None
    return min(conflicts / (sms * clock), gap.measured - gap.target.best)


def _divergence(gap: Gap, known: Figures, machine: Machine) -> float | None:
    threads = known.get("threads_per_instruction")
    return _no_less(gap, gap.measured * threads / 32) if isinstance(threads, float) else _reach(gap, known, machine)


def _blocks(gap: Gap, known: Figures, machine: Machine) -> float | None:
    share = known.get("block_share")
    return _no_less(gap, gap.measured * share) if isinstance(share, float) else _reach(gap, known, machine)


def _fill(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """Per problem, when as many are done at once as the machine holds."""
    fill = known.get("fill")
    return (
        gap.measured - max(gap.target.floor / REACH[gap.target.kind], gap.measured * fill)
        if isinstance(fill, float)
        else None
    )


def _engine(gap: Gap, known: Figures, machine: Machine) -> float | None:
    name, times = _faster(gap, machine)
    if not name or times is None:
        return None
    flops = gap.flops or gap.target.flops
    # what crosses the caches hangs on the kernel, and another kernel it would be
    rest = [need.time for label, need in gap.needs.items() if label != gap.ran and label not in gap.inner]
    peak = machine.peak(name, gap.target.ceilings).value
    return gap.measured - max([flops / peak, *rest]) / REACH[gap.target.kind] - gap.target.launch


def _padding(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return _entry(gap, EXTRA)


def _graph(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return gap.seen.launches * launch_latency(machine) * (1 - graph_node_share())


def _launch(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return min(gap.seen.launches * launch_latency(machine), gap.measured)


def _fuse(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """One write and one read of the tensor between, and a launch."""
    if gap.between is None or gap.main not in gap.target.needs:
        return None
    moved = 2 * gap.between.bytes / gap.target.needs[gap.main].rate
    return min(moved + launch_latency(machine), gap.measured)


def _most_read(gap: Gap) -> float:
    """The share of the bytes that the tensor has that is read most."""
    moves = gap.target.work.moves
    read = [float(value) for (level, _, way), value in moves.items() if level == MAIN and way == READ]
    return max(read) / gap.target.bytes if read and gap.target.bytes else 0.0


def _quantise(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """Half the bytes of the tensor that is read most."""
    return gap.measured * _most_read(gap) / 2


def _rows(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """Per row, when the tensor that is read most serves twice as many: never below what their arithmetic takes."""
    compute = max((need.time for need in gap.target.needs.values() if need.side == "compute"), default=0.0)
    return gap.measured - max(gap.measured * (1 - _most_read(gap) / 2), compute)


def _tensor(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """The largest tensor need not be moved."""
    moved = [float(value) for (level, _, _), value in gap.target.work.moves.items() if level == MAIN]
    return gap.measured * max(moved) / gap.target.bytes if moved and gap.target.bytes else None


def _nothing(gap: Gap, known: Figures, machine: Machine) -> float | None:
    """On the device; what the host no longer takes comes with every move that joins launches."""
    return 0.0


def _unknown(gap: Gap, known: Figures, machine: Machine) -> float | None:
    return None


GAINS: dict[str, Callable[[Gap, Figures, Machine], float | None]] = {
    "reach": _reach, "up": _up, "waste": _waste, "inner": _inner, "traffic": _traffic, "spills": _spills,
    "conflicts": _conflicts, "divergence": _divergence, "blocks": _blocks, "fill": _fill, "engine": _engine,
    "padding": _padding, "graph": _graph, "launch": _launch, "fuse": _fuse, "quantise": _quantise, "rows": _rows,
    "tensor": _tensor, "nothing": _nothing, "unknown": _unknown,
}  # fmt: skip


def _host(gap: Gap, move: Move, device: float) -> float | None:
    """What a move takes off the waiting for the host; None where that is not known, or not whether there is any.

    Many kernels become one launch. Before: max(launches x each - measured, 0). After: max(each - (measured - device), 0).
    Less than 0 where the device gets faster than the host can send.
    """
    if not move.joins or gap.sent is None:
        return None
    before, after = gap.waiting, gap.waits(1.0, gap.measured - device)
    return None if before is None or after is None else before - after


# -- advice -------------------------------------------------------------------------------------------------


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
    end: tuple[float, float] | None = None  # intensity and flop/s it would reach
    missing: tuple[str, ...] = field(default=())  # figures that would tell
    host: float | None = None  # the part of the gain that is waiting for the host; None where it is not known

    @property
    def device(self) -> float | None:
        """The part of the gain that is time on the device."""
        return None if self.gain is None else self.gain - (self.host or 0.0)

    def document(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "status": self.status,
            "cause": self.cause,
            "move": self.move,
            "changes": self.changes,
            "direction": self.direction,
            "limit": self.limit,
            "gain_us": None if self.gain is None else self.gain * 1e6,
            "device_gain_us": None if self.device is None else self.device * 1e6,
            "host_gain_us": None if self.host is None else self.host * 1e6,
            "evidence": list(self.evidence),
            "end": None if self.end is None else {"intensity": self.end[0], "rate": self.end[1]},
            "missing": list(self.missing),
        }


def advise(gap: Gap, machine: Machine | None = None) -> list[Advice]:
    """What the evidence supports, the largest gain first; then what the work suggests, then what was not looked at."""
    machine = machine or gap.target.machine
    known = figures(gap, machine)
    held = {rule.name: (rule, status) for rule in rules() if (status := rule.status(known))}
    found = []
    for rule, status in held.values():
        move = catalog()[rule.move]
        if any(name in held and held[name][1] == "shown" for name in rule.unless):
            continue
        if (move.direction == "right" and gap.deep) or (move.key == "graph" and gap.sent == GRAPH):
            continue
        gain = GAINS[rule.gain](gap, known, machine)
        gain = None if gain is None else min(gain, gap.measured)
        host = None if gain is None else _host(gap, move, gain)
        if gain is None or gain + (host or 0.0) >= LEAST[status] * gap.measured:
            found.append((rule, _advice(gap, rule, status, move, gain, host, known)))
    # a cause that was not looked at has no room beside one that explains the gap
    explained = max((item.device or 0.0 for _, item in found if item.status == "shown"), default=0.0)
    open_ = explained < EXPLAINED * (gap.measured - gap.target.best)
    kept = [item for rule, item in found if item.status == "shown" or rule.possible or open_]
    suggested = {rule.name for rule in rules() if rule.possible}
    # what follows from the work itself goes before causes that nobody has a sign of
    return sorted(kept, key=lambda item: (item.status != "shown", item.rule not in suggested, -(item.gain or 0.0)))


def _advice(
    gap: Gap, rule: Rule, status: str, move: Move, gain: float | None, host: float | None, known: Figures
) -> Advice:
    """`gain` is that on the device."""
    used = [
        name for name in dict.fromkeys(condition.figure for condition in rule.applies + rule.sign) if name != "device"
    ]
    return Advice(
        rule=rule.name,
        status=status,
        cause=rule.cause,
        move=move.name,
        changes=move.changes,
        direction=move.direction,
        limit=move.limit,
        gain=None if gain is None else gain + (host or 0.0),
        evidence=_evidence(gap, rule, used, known) + _of_host(gap, move, host),
        end=_end(gap, move, gain),
        missing=tuple(name for name in used if name not in known) + _untold(gap, move),
        host=host,
    )


def _of_host(gap: Gap, move: Move, host: float | None) -> tuple[str, ...]:
    """The host's part of a gain, or of what it would be if the kernels are sent one by one."""
    told = gap.waiting if host is None else host
    if not move.joins or gap.host is None or not told:
        return ()
    part = "more if they are sent one by one" if host is None else "of it"
    return (f"{WAITING}: {show(told, 's', 3)} {part} ({gap.host.evidence})",)


def _untold(gap: Gap, move: Move) -> tuple[str, ...]:
    """What would have to be known to price the host: what it takes to send a kernel, and whether it sends each."""
    if not move.joins or gap.seen.launches < 2 or gap.sent == GRAPH:
        return ()
    return (*(("dispatch",) if gap.host is None else ()), *(("sent",) if gap.sent is None else ()))


def _evidence(gap: Gap, rule: Rule, used: list[str], known: Figures) -> tuple[str, ...]:
    told = tuple(f"{name} {_told(known[name])}" for name in used if name in known)
    if rule.gain == "fuse" and gap.between is not None:
        told += (f"{gap.between.tensor}, {show(gap.between.bytes, 'B', 3)}, is shared with {gap.between.other}",)
    return told


def _told(value: float | str) -> str:
    return value if isinstance(value, str) else show(value, "", 3)


def _end(gap: Gap, move: Move, gain: float | None) -> tuple[float, float] | None:
    """Where the point would land: never right of the algorithm's intensity, never above the roof there."""
    flops, moved = gap.flops, gap.moved
    memory, engine = gap.needs.get(gap.main), gap.needs.get(gap.ran or "")
    if gain is None or not flops or not moved or memory is None or engine is None or gain >= gap.measured:
        return None
    after = gap.measured - gain
    at = flops / moved
    if "bytes" in move.effect and gap.target.bytes:
        # cutting bytes by a factor moves along the roof, so x grows as far as y does
        at = max(min(at * gap.measured / after, gap.target.flops / gap.target.bytes), at)
    peak = float("inf") if move.key == "engine" else engine.rate
    return at, min(flops / after, peak, at * memory.rate)
