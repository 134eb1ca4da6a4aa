"""Join observed kernels to predicted steps: by name, by order, by kernel family and shape.

A step may have run as several kernels, and a kernel may have run several steps; what cannot be joined is listed on both
sides. Names come first: a range, module, op or kernel with the name of a step. The remaining kernels are joined in order
where the families allow it, then by family where only one assignment is possible.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.errors import unknown
from ..core.observation import Observation
from ..core.work import READ, Work
from ..prediction.predict import Prediction

# Kernel families by patterns in the kernel name; the first match counts.
KERNELS: tuple[tuple[str, str], ...] = (
    (r"splitk|split_k|memset|memcpy", "helper"),  # belongs to the kernel before it
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
# Step families that a kernel family may implement: libraries use elementwise kernels for strided copies, and so on.
SERVED_BY: dict[str, frozenset[str]] = {
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
MAX_SIZE_RATIO = 2.0  # within which tensors count as the same (padding, an added bias)

Hints = Mapping[str, str | Sequence[str]]  # name or kernel of an observation -> its step or steps


@dataclass(frozen=True)
class Pair:
    """Steps of a prediction, by their places, and the observations of them."""

    steps: tuple[int, ...]
    observations: tuple[Observation, ...]
    how: str  # name, order, family or hint


@dataclass(frozen=True)
class Joined:
    pairs: tuple[Pair, ...]
    unmatched_predicted: tuple[int, ...]  # places of steps
    unmatched_observed: tuple[Observation, ...]


def join(prediction: Prediction, observations: Sequence[Observation], hints: Hints | None = None) -> Joined:
    """Pairs in the order of the steps, and the unmatched on both sides."""
    matching = _Matching(prediction, observations)
    names = _Names([step.name for step in prediction.steps])
    named: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, item in enumerate(observations):
        hinted = names.hinted(item, hints or {})
        if hinted:
            matching.take(hinted, [place], "hint")
        else:
            named[names.named(item)].append(place)
    for steps, places in named.items():
        for group, part in names.in_turn(steps, places) if steps else ():
            matching.take(group, part, "name")
    matching.by_order()
    matching.by_shape()
    matching.by_family()
    return matching.joined()


# -- by name ------------------------------------------------------------------------------------------------


def _plain(name: object) -> str:
    return str(name).strip().lower().replace("/", ".")


class _Names:
    """The steps by name, and by the modules they are in."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.steps: dict[str, tuple[int, ...]] = {}
        self.modules: dict[str, tuple[int, ...]] = {}
        for place, name in enumerate(map(_plain, names)):
            self.steps[name] = (*self.steps.get(name, ()), place)
            parts = name.split(".")
            for depth in range(1, len(parts)):
                module = ".".join(parts[:depth])
                self.modules[module] = (*self.modules.get(module, ()), place)

    def hinted(self, item: Observation, hints: Hints) -> tuple[int, ...]:
        for key in (item.name, item.kernel):
            if key in hints:
                hint = hints[key]
                wanted = (hint,) if isinstance(hint, str) else tuple(hint)
                for name in wanted:
                    if name not in self.names:
                        raise unknown("step of the prediction", name, self.names, f"It was named for '{key}'.")
                return tuple(place for place, name in enumerate(self.names) if name in wanted)
        return ()

    def named(self, item: Observation) -> tuple[int, ...]:
        """The steps that an observation names: one, or several where it names a module or lists them."""
        path = [_plain(part) for part in item.path]
        name = _plain(item.name)
        keys = [name, *(".".join(path[start:]) for start in range(len(path))), *reversed(path)]
        for key in (*keys, _plain(item.settings.get("op", "")), _plain(item.kernel)):
            if key and key in self.steps:
                return self.steps[key]
        listed = [part.strip() for part in name.split("+")]
        if len(listed) > 1 and all(part in self.steps for part in listed):
            return tuple(sorted(place for part in set(listed) for place in self.steps[part]))
        return next((self.modules[key] for key in keys if key in self.modules), ())

    def in_turn(self, steps: tuple[int, ...], places: list[int]) -> Iterable[tuple[tuple[int, ...], list[int]]]:
        """Steps with equal names take the observations in order; steps of a module stay together."""
        if len(steps) == 1 or len({self.names[step] for step in steps}) > 1 or len(places) % len(steps):
            return [(steps, places)]
        each = len(places) // len(steps)
        return [((step,), places[turn * each : (turn + 1) * each]) for turn, step in enumerate(steps)]


# -- by order, shape and family -------------------------------------------------------------------------------


class _Matching:
    """Which observations belong to which steps so far."""

    def __init__(self, prediction: Prediction, observations: Sequence[Observation]) -> None:
        self.works = [step.work for step in prediction.steps]
        self.observations = observations
        self.places: dict[tuple[int, ...], list[int]] = defaultdict(list)  # of observations, by steps
        self.how: dict[tuple[int, ...], str] = {}
        self.free = dict.fromkeys(range(len(observations)))

    def take(self, steps: tuple[int, ...], places: Iterable[int], how: str) -> None:
        for place in places:
            self.places[steps].append(place)
            del self.free[place]
        self.how.setdefault(steps, how)

    def joined(self) -> Joined:
        pairs = [
            Pair(steps, tuple(self.observations[place] for place in sorted(places)), self.how[steps])
            for steps, places in sorted(self.places.items())
        ]
        return Joined(tuple(pairs), tuple(self._open()), tuple(self.observations[place] for place in self.free))

    def _open(self) -> list[int]:
        """Steps without an observation."""
        used = {step for steps in self.places for step in steps}
        return [step for step in range(len(self.works)) if step not in used]

    def _with_helpers(self) -> dict[int, list[int]]:
        """The free observations, each with the helper kernels that follow it (split-k reduction, memset)."""
        groups: dict[int, list[int]] = {}
        last: list[int] | None = None
        for place in self.free:
            if last is not None and kernel_family(self.observations[place]) == "helper":
                last.append(place)
            else:
                last = groups[place] = [place]
        return groups

    def by_order(self) -> None:
        steps, groups = self._open(), self._with_helpers()
        if not steps or len(steps) != len(groups):
            return
        pairs = list(zip(steps, groups, strict=True))
        if all(may_be(self.works[step], self.observations[place]) for step, place in pairs):
            for step, place in pairs:
                self.take((step,), groups[place], "order")

    def by_shape(self) -> None:
        """Kernels of a known family whose shapes name one step."""
        steps = self._open()
        for place, group in self._with_helpers().items() if steps else ():
            item = self.observations[place]
            if item.settings.get("shapes") and kernel_family(item):
                allowed = [step for step in steps if may_be(self.works[step], item)]
                fitting = [step for step in allowed if same_shape(self.works[step], item)]
                if len(fitting) == 1:
                    self.take((fitting[0],), group, "family")

    def by_family(self) -> None:
        """By family, with as many kernels as steps, or a multiple in repeating order."""
        groups = self._with_helpers()
        families: dict[str, list[int]] = defaultdict(list)
        for step in self._open():
            families[step_family(self.works[step])].append(step)
        for family, steps in families.items():
            fitting = [place for place in groups if place in self.free and self._serves(place, family, steps)]
            if not family or not fitting or len(fitting) % len(steps):
                continue  # which kernel is which step would be a guess
            kernels = [self.observations[place].kernel for place in fitting]
            if len(steps) == 1 or kernels == kernels[: len(steps)] * (len(fitting) // len(steps)):
                for turn, step in enumerate(steps):
                    for place in fitting[turn :: len(steps)]:
                        self.take((step,), groups[place], "family")

    def _serves(self, place: int, family: str, steps: Sequence[int]) -> bool:
        item = self.observations[place]
        other = all(other_size(self.works[step], item) for step in steps)
        return not other and family in SERVED_BY.get(kernel_family(item), ())


# -- kernel families and shapes ---------------------------------------------------------------------------------------


def kernel_family(item: Observation) -> str:
    """The family from the kernel name, else from the op; empty where neither matches."""
    families = map(_family, (item.kernel, str(item.settings.get("op", "")), item.name))
    return next(filter(None, families), "")


@lru_cache(maxsize=4096)
def _family(text: str) -> str:
    return next((family for pattern, family in KERNELS if re.search(pattern, text, re.IGNORECASE)), "")


def step_family(work: Work) -> str:
    """The family of a step in the same terms; row operations are split by op."""
    if work.family == "rows":
        return "softmax" if "softmax" in work.name else "norm" if "norm" in work.name else "rows"
    return work.family


def may_be(work: Work, item: Observation) -> bool:
    """Whether the kernel name and the recorded shapes are consistent with the step."""
    if other_size(work, item):
        return False
    family = kernel_family(item)
    return not family or not work.family or step_family(work) in SERVED_BY.get(family, frozenset({family}))


def same_shape(work: Work, item: Observation) -> bool:
    """Whether the recorded shapes contain every size of the step."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.shape:
        return False
    listed = [size for shape in shapes if isinstance(shape, list) for size in shape]
    recorded = {float(size) for size in listed if isinstance(size, int | float)}
    sizes = [value for value in work.shape.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(sizes) and all(float(size) in recorded or size == 1 for size in sizes)


def other_size(work: Work, item: Observation) -> bool:
    """Whether the recorded shapes contradict the step: the largest input has another size."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.dtype:
        return False
    listed = [shape for shape in shapes if isinstance(shape, list) and shape]
    recorded = [prod(shape) for shape in listed if all(isinstance(size, int) for size in shape)]
    inputs = {tensor for _, tensor, way in work.moves if way == READ}
    sizes = work.tensor_sizes()
    largest = max((float(np.max(sizes[tensor])) for tensor in inputs if tensor in sizes), default=0.0)
    if not recorded or not largest:
        return False
    elements = largest / dtype_row(work.dtype).bytes
    return not 1 / MAX_SIZE_RATIO <= max(recorded) / elements <= MAX_SIZE_RATIO
