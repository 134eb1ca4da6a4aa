"""Which observed kernels belong to which predicted steps: by name, by order, by kernel family and shape.

A step may have run as several kernels, and one kernel may have done several steps; what fits nowhere is listed, on
both sides. Names decide first: a range, a module, an op or a kernel that is called like a step. What they leave is joined
in order where the families allow it, then family by family where the numbers leave no choice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, inf, prod
from typing import Any

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, unknown
from ..core.observation import Observation
from ..core.statistics import median
from ..core.work import READ, Work
from ..prediction.predict import Prediction

Hints = Mapping[str, str | Sequence[str]]  # name or kernel of an observation -> the step or steps it did

# What a kernel's own name says it is; the first pattern that fits counts.
KERNELS: tuple[tuple[str, str], ...] = (
    (r"splitk|split_k|memset|memcpy", "helper"),
    (r"flash|fmha|sdpa|attention|paged", "attention"),
    (r"conv|fprop|dgrad|wgrad|implicit_gemm|winograd", "conv"),
    (r"all_?reduce|all_?gather|reduce_?scatter|sendrecv|nccl", "collective"),
    (r"softmax", "softmax"),
    (r"layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw", "norm"),
    (r"embedding|gather|index_select|scatter", "gather"),
    (r"transpose|permute", "transpose"),
    (r"gemv", "gemv"),
    (r"gemm|nvjet|cutlass|xmma|matmul|wgmma", "gemm"),
    (r"reduce_kernel|\breduce|asum|nrm2|dot_kernel", "reduce"),
    (r"elementwise|vectorized|unrolled|pointwise|copy|fill|triton_poi", "stream"),
)
# Families that one and the same kernel may serve: libraries copy strided with elementwise kernels, and reduce rows.
ALIKE: dict[str, frozenset[str]] = {
    "gemm": frozenset({"gemm", "gemv", "moe"}),
    "gemv": frozenset({"gemv", "gemm"}),
    "stream": frozenset({"stream", "transpose", "gather"}),
    "transpose": frozenset({"transpose", "stream"}),
    "gather": frozenset({"gather", "stream"}),
    "reduce": frozenset({"reduce", "rows", "softmax", "norm"}),
    "softmax": frozenset({"softmax", "rows", "attention"}),
    "norm": frozenset({"norm", "rows"}),
    "attention": frozenset({"attention"}),
    "conv": frozenset({"conv"}),
    "collective": frozenset({"collective"}),
}
ALMOST = 2.0  # factor within which the sizes of tensors are taken for the same (padding, a bias beside a weight)
WHOLE = 0.5  # share of a step's amounts (or of its floor) that one run of it must show


@dataclass(frozen=True)
class Pair:
    """Steps of a prediction, by their places, and the observations that speak of them."""

    steps: tuple[int, ...]
    observations: tuple[Observation, ...]
    how: str  # name, order, family or hint

    @property
    def fused(self) -> bool:
        return len(self.steps) > 1


@dataclass(frozen=True)
class Joined:
    pairs: tuple[Pair, ...]
    unmatched_predicted: tuple[int, ...]  # places of steps
    unmatched_observed: tuple[Observation, ...]


def kernel_family(item: Observation) -> str:
    """What the kernel's name, or the op's where there is none, says it is; empty where it says nothing."""
    for text in (item.kernel, item.settings.get("op", ""), item.name):
        family = _family(str(text))
        if family:
            return family
    return ""


@lru_cache(maxsize=4096)
def _family(text: str) -> str:
    return next((family for pattern, family in KERNELS if re.search(pattern, text, re.IGNORECASE)), "")


def step_family(work: Work) -> str:
    """The same words for a step; rows are told apart by the op."""
    if work.family == "rows":
        return "softmax" if "softmax" in work.name else "norm" if "norm" in work.name else "rows"
    return work.family


def join(prediction: Prediction, observations: Sequence[Observation], hints: Hints | None = None) -> Joined:
    """Pairs in the order of the steps, and what is left over on both sides."""
    taken = _Taken(prediction, observations)
    names = _Names([step.name for step in prediction.steps])
    named: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, item in enumerate(observations):
        asked = names.hinted(item, hints)
        if asked:
            taken.take(asked, [place], "hint")
        else:
            named[names.named(item)].append(place)
    for steps, places in named.items():
        for mine, part in names.in_turn(steps, places) if steps else ():
            taken.take(mine, part, "name")
    taken.by_order()
    taken.by_family()
    return taken.joined()


# -- by name ------------------------------------------------------------------------------------------------


def _plain(name: object) -> str:
    return str(name).strip().lower().replace("/", ".")


class _Names:
    """The steps by name, and by the modules they are in."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.own: dict[str, tuple[int, ...]] = {}
        self.inside: dict[str, tuple[int, ...]] = {}
        for place, name in enumerate(map(_plain, names)):
            self.own[name] = (*self.own.get(name, ()), place)
            parts = name.split(".")
            for depth in range(1, len(parts)):
                module = ".".join(parts[:depth])
                self.inside[module] = (*self.inside.get(module, ()), place)

    def hinted(self, item: Observation, hints: Hints | None) -> tuple[int, ...]:
        for key in (item.name, item.kernel) if hints else ():
            if hints and key in hints:
                asked = hints[key]
                wanted = (asked,) if isinstance(asked, str) else tuple(asked)
                for name in wanted:
                    if name not in self.names:
                        raise unknown("step of the prediction", name, self.names, f"It was named for '{key}'.")
                return tuple(place for place, name in enumerate(self.names) if name in wanted)
        return ()

    def named(self, item: Observation) -> tuple[int, ...]:
        """The steps an observation names: one, or several where its name is that of a module around them or lists them."""
        path = [_plain(part) for part in item.path]
        whole = _plain(item.name)
        keys = [whole, *(".".join(path[start:]) for start in range(len(path))), *reversed(path)]
        for key in (*keys, _plain(item.settings.get("op", "")), _plain(item.kernel)):
            if key and key in self.own:
                return self.own[key]
        listed = [part.strip() for part in whole.split("+")]
        if len(listed) > 1 and all(part in self.own for part in listed):
            return tuple(sorted(place for part in set(listed) for place in self.own[part]))
        return next((self.inside[key] for key in keys if key in self.inside), ())

    def in_turn(self, steps: tuple[int, ...], places: list[int]) -> Iterable[tuple[tuple[int, ...], list[int]]]:
        """Steps of one and the same name take the observations in order; steps of a module stay together."""
        if len(steps) == 1 or len({self.names[step] for step in steps}) > 1 or len(places) % len(steps):
            return [(steps, places)]
        each = len(places) // len(steps)
        return [((step,), places[turn * each : (turn + 1) * each]) for turn, step in enumerate(steps)]


# -- by order and by family -----------------------------------------------------------------------------------


def _fits(work: Work, item: Observation) -> bool:
    """Whether neither the kernel's name nor the shapes recorded with it speak against the step."""
    family = kernel_family(item)
    if _contradicts(work, item):
        return False
    return not family or not work.family or step_family(work) in ALIKE.get(family, frozenset({family}))


class _Taken:
    """Who belongs to whom so far."""

    def __init__(self, prediction: Prediction, observations: Sequence[Observation]) -> None:
        self.steps = prediction.steps
        self.observations = observations
        self.found: dict[tuple[int, ...], list[int]] = defaultdict(list)
        self.how: dict[tuple[int, ...], str] = {}
        self.free = dict.fromkeys(range(len(observations)))

    def take(self, steps: tuple[int, ...], places: Iterable[int], how: str) -> None:
        for place in places:
            self.found[steps].append(place)
            del self.free[place]
        self.how.setdefault(steps, how)

    def joined(self) -> Joined:
        pairs = [
            Pair(steps, tuple(self.observations[place] for place in sorted(places)), self.how[steps])
            for steps, places in sorted(self.found.items())
        ]
        return Joined(tuple(pairs), tuple(self._left()), tuple(self.observations[place] for place in self.free))

    def _left(self) -> list[int]:
        used = {step for steps in self.found for step in steps}
        return [step for step in range(len(self.steps)) if step not in used]

    def _main(self) -> tuple[list[int], dict[int, list[int]]]:
        """Observations that stand for themselves, and the helpers that follow each (a sum of split parts, a fill)."""
        main: list[int] = []
        helpers: dict[int, list[int]] = defaultdict(list)
        for place in self.free:
            if main and kernel_family(self.observations[place]) == "helper":
                helpers[main[-1]].append(place)
            else:
                main.append(place)
        return main, helpers

    def by_order(self) -> None:
        steps = self._left()
        main, helpers = self._main()
        if not steps or len(steps) != len(main):
            return
        pairs = list(zip(steps, main, strict=True))
        if all(_fits(self.steps[step].work, self.observations[place]) for step, place in pairs):
            for step, place in pairs:
                self.take((step,), [place, *helpers[place]], "order")

    def by_family(self) -> None:
        """Kernels whose shapes name one step; then, family by family, as many kernels as steps or whole turns of them."""
        main, helpers = self._main()
        left = self._left()
        for place in main if left else ():
            item = self.observations[place]
            if item.settings.get("shapes") and kernel_family(item):
                shaped = [
                    step
                    for step in left
                    if _fits(self.steps[step].work, item) and _same_shape(self.steps[step].work, item)
                ]
                if len(shaped) == 1:
                    self.take((shaped[0],), [place, *helpers[place]], "family")
        families: dict[str, list[int]] = defaultdict(list)
        for step in self._left():
            families[step_family(self.steps[step].work)].append(step)
        for family, steps in families.items():
            mine = [
                place
                for place in main
                if place in self.free
                and family in ALIKE.get(kernel_family(self.observations[place]), ())
                and not all(_contradicts(self.steps[step].work, self.observations[place]) for step in steps)
            ]
            if not family or not mine or len(mine) % len(steps):
                continue  # which kernel is which step would be a guess
            kernels = [self.observations[place].kernel for place in mine]
            turns = len(mine) // len(steps)
            if len(steps) == 1 or kernels == kernels[: len(steps)] * turns:
                for turn, step in enumerate(steps):
                    part = mine[turn :: len(steps)]
                    self.take((step,), [other for place in part for other in (place, *helpers[place])], "family")


def _same_shape(work: Work, item: Observation) -> bool:
    """Whether the op's shapes hold every size of the step."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.shape:
        return False
    seen = {
        float(size) for shape in shapes if isinstance(shape, list) for size in shape if isinstance(size, int | float)
    }
    sizes = [value for value in work.shape.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(sizes) and all(float(size) in seen or size == 1 for size in sizes)


def _contradicts(work: Work, item: Observation) -> bool:
    """Whether the op's recorded shapes speak against the step: its largest input is of quite another size."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.dtype:
        return False
    seen = [
        prod(shape) for shape in shapes if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape)
    ]
    inputs = {tensor for _, tensor, way in work.moves if way == READ}
    sizes = work.tensor_sizes()
    largest = max((float(np.max(sizes[tensor])) for tensor in inputs if tensor in sizes), default=0.0)
    if not seen or not largest:
        return False
    elements = largest / dtype_row(work.dtype).bytes
    return not 1 / ALMOST <= max(seen) / elements <= ALMOST


# -- several kernels as one -----------------------------------------------------------------------------------

# Counters that add up over kernels; the others are shares and sizes, which the longest kernel speaks for most.
AMOUNTS = frozenset(
    {
        "hbm_read", "hbm_write", "l2_to_sm", "tma", "cycles", "spills", "local_sectors", "bank_conflicts",
        "shared_wavefronts",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """All that was observed of one run of a step: times add up, amounts add up, shares are weighted by time."""

    samples: tuple[float, ...]  # seconds, one per run
    flops: Mapping[str, float]
    bytes: Mapping[str, float]
    counters: Mapping[str, float]
    conditions: Mapping[str, Any]
    defined: Mapping[str, str]
    kernels: tuple[str, ...]  # own names, each once
    families: tuple[str, ...]
    launches: float  # kernels of one run
    path: tuple[str, ...]  # modules or ranges around all of it
    tools: tuple[str, ...]
    notes: tuple[str, ...]

    @cached_property
    def median(self) -> float:
        return median(self.samples)

    @cached_property
    def spread(self) -> float:
        low, high = np.quantile(self.samples, [0.1, 0.9])
        return float((high - low) / 2 / self.median)


def seen(items: Sequence[Observation], work: Work, floor: float, count: float = 1.0) -> Seen:
    """The observations of a pair as runs of its step, `count` of which the program has."""
    if not items:
        raise InputError("there is nothing observed to put together")
    runs = _runs(items, work, floor, count)
    groups: dict[str, list[Observation]] = defaultdict(list)
    for item in items:
        groups[item.kernel or item.name].append(item)
    parts = _parts(items, runs, work, floor, count)
    if parts > 1:
        samples = _taken(items, parts)
    elif len(items) == 1 or runs == 1:
        samples = _summed(items)
    else:
        turns = [_chunks(group, runs) for group in groups.values()]
        samples = tuple(
            sample for run in range(runs) for sample in _summed([item for turn in turns for item in turn[run]])
        )
    weights = [_each(item) * item.median for item in items]
    return Seen(
        samples=samples,
        flops=_added([item.flops for item in items], items, runs / parts),
        bytes=_added([item.bytes for item in items], items, runs / parts),
        counters=_counters(items, weights, runs / parts),
        conditions=items[int(np.argmax(weights))].conditions,
        defined=items[int(np.argmax(weights))].defined,
        kernels=tuple(dict.fromkeys(item.kernel for item in items if item.kernel)),
        families=tuple(dict.fromkeys(family for item in items if (family := kernel_family(item)))),
        launches=sum(_each(item) for item in items) * parts / runs,
        path=_common([item.path for item in items]),
        tools=tuple(dict.fromkeys(item.tool for item in items)),
        notes=tuple(dict.fromkeys(note for item in items for note in item.notes)),
    )


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all paths begin with."""
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return tuple(shared)


def _each(item: Observation) -> float:
    """How often a kernel ran in one call of its op, where the samples of several are in one observation."""
    count, calls = item.settings.get("count"), item.settings.get("calls")
    return max(count / calls, 1.0) if isinstance(count, int) and isinstance(calls, int) and calls > 0 else 1.0


def _chunks(group: Sequence[Observation], runs: int) -> list[Sequence[Observation]]:
    each = len(group) // runs
    return [group[run * each : (run + 1) * each] for run in range(runs)]


def _runs(items: Sequence[Observation], work: Work, floor: float, count: float) -> int:
    """How many times the whole step ran. Repeated kernels are runs of their own only where one run can be the whole step."""
    groups: dict[str, int] = defaultdict(int)
    for item in items:
        groups[item.kernel or item.name] += 1
    common = gcd(*groups.values())
    if common == 1:
        return 1
    if count > 1:
        return int(count) if common % int(count) == 0 else common
    return common if _share(items, work, floor) / common >= WHOLE else 1


def _parts(items: Sequence[Observation], runs: int, work: Work, floor: float, count: float) -> int:
    """How many samples of each item make one run: several where all items at once cannot be the whole step.

    Profilers put kernels that differ in nothing but their time into one observation, be they runs or parts of one.
    """
    lengths = {len(item.samples) for item in items}
    most = min(lengths)
    if runs > 1 or len(lengths) > 1 or most == 1 or _share(items, work, floor) >= WHOLE:
        return 1
    return most // int(count) if most % int(count) == 0 else most


def _share(items: Sequence[Observation], work: Work, floor: float) -> float:
    """What the items at once did of the step: by counted flops or bytes, else by time; infinite where nothing tells."""
    shares = []
    flops = float(np.asarray(work.flops))
    moved = float(np.asarray(work.bytes))
    if flops and all(item.flops for item in items):
        shares.append(sum(sum(item.flops.values()) for item in items) / flops)
    if moved and all(item.bytes for item in items):
        shares.append(sum(max(item.bytes.values()) for item in items) / moved)
    if not shares and floor:
        shares.append(sum(_each(item) * item.median for item in items) / floor)
    return max(shares, default=inf)


def _taken(items: Sequence[Observation], parts: int) -> tuple[float, ...]:
    """Times of runs that take `parts` samples of each item in turn."""
    return tuple(
        sum(_each(item) * sum(item.samples[at : at + parts]) for item in items)
        for at in range(0, len(items[0].samples), parts)
    )


def _summed(items: Sequence[Observation]) -> tuple[float, ...]:
    """Samples of one run made of all items: sample by sample where all have as many, else the sum of the medians."""
    lengths = {len(item.samples) for item in items}
    if len(lengths) == 1:
        return tuple(sum(_each(item) * item.samples[place] for item in items) for place in range(len(items[0].samples)))
    return (sum(_each(item) * item.median for item in items),)


def _added(amounts: Sequence[Mapping[str, float]], items: Sequence[Observation], runs: float) -> dict[str, float]:
    """Amounts of one run; one that a kernel lacks is not known for the whole."""
    shared = set(amounts[0]).intersection(*amounts[1:])
    return {
        name: sum(_each(item) * row[name] for row, item in zip(amounts, items, strict=True)) / runs
        for name in amounts[0]
        if name in shared
    }


def _counters(items: Sequence[Observation], weights: Sequence[float], runs: float) -> dict[str, float]:
    rows = [item.counters for item in items]
    shared = set(rows[0]).intersection(*rows[1:])
    whole = sum(weights)
    return {
        name: sum(row[name] for row in rows) / runs
        if name in AMOUNTS
        else sum(weight * row[name] for weight, row in zip(weights, rows, strict=True)) / whole
        for name in rows[0]
        if name in shared
    }
