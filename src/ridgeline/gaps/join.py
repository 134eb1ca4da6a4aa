"""Join observed kernels to predicted steps: by name, by order, by kernel family and shape.

A step may have run as several kernels, and a kernel may have run several steps; what cannot be joined is listed on both
sides. Names come first: a range, module, op or kernel with the name of a step. The remaining kernels are joined by shape
where a single step fits, in order where the families allow it, then by family where only one assignment is possible. Order
and family say little about a kernel: such joins are doubtful, are shown as that, and count for nothing.

What a profiler marked as part of the backward pass is joined only to steps of a backward pass, and nothing else to those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import unknown
from ..core.observation import Observation
from ..prediction.predict import Prediction
from .kernel_families import SERVED_BY, Kernel, Needed, Shapes, Sizes, kernel_of, may_be, needed_by

NAME, NVTX, SHAPE, CORRELATION, HINT, ORDER, FAMILY = "name", "nvtx", "shape", "correlation", "hint", "order", "family"
CONFIDENCE = {
    HINT: "high", CORRELATION: "high", NAME: "high", NVTX: "high", SHAPE: "medium", ORDER: "low", FAMILY: "low",
}  # fmt: skip
DOUBTFUL = "low"
BACKWARD = "backward"  # in the settings of an observation, and in the names of steps and ops
MAX_LEVELS = 64  # of the modules in a name or a path that are looked at

Hints = Mapping[str, str | Sequence[str]]  # name or kernel of an observation -> its step or steps


@dataclass(frozen=True)
class Pair:
    """Steps of a prediction, by their places, and the observations of them."""

    steps: tuple[int, ...]
    observations: tuple[Observation, ...]
    how: str  # a key of CONFIDENCE


@dataclass(frozen=True)
class Joined:
    pairs: tuple[Pair, ...]
    unmatched_predicted: tuple[int, ...]  # places of steps
    unmatched_observed: tuple[Observation, ...]


def join(prediction: Prediction, observations: Sequence[Observation], hints: Hints | None = None) -> Joined:
    """Pairs in the order of the steps, and the unmatched on both sides."""
    matching = _Matching(prediction, observations)
    names = _Names([step.name for step in prediction.steps])
    named: dict[tuple[int, ...], list[int]] = {}
    by_identity: dict[int, list[int]] = {}  # hashing the many steps of a module once per kernel would take long
    for place, item in enumerate(observations):
        hinted = names.hinted(item, hints or {})
        if hinted:
            matching.take(hinted, [place], HINT)
            continue
        steps = matching.of_pass(names.named(item), place)
        if id(steps) not in by_identity:
            by_identity[id(steps)] = named.setdefault(steps, [])
        by_identity[id(steps)].append(place)
    for steps, places in named.items():
        how = NVTX if all(names.by_range(observations[place]) for place in places) else NAME
        for group, part in names.in_turn(steps, places) if steps else ():
            matching.take(group, part, how)
    matching.by_shape()
    matching.by_order()
    matching.by_family()
    return matching.joined()


# -- by name ------------------------------------------------------------------------------------------------


def _plain(name: object) -> str:
    return str(name).strip().lower().replace("/", ".")


class _Names:
    """The steps by name, and by the modules they are in; equal names give the same tuple, not only an equal one."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.known = frozenset(names)
        steps: dict[str, list[int]] = defaultdict(list)
        modules: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(map(_plain, names)):
            steps[name].append(place)
            end = name.find(".")
            for _ in range(MAX_LEVELS):
                if end < 0:
                    break
                modules[name[:end]].append(place)
                end = name.find(".", end + 1)
        self.steps = {name: tuple(places) for name, places in steps.items()}
        self.modules = {name: tuple(places) for name, places in modules.items()}
        self.lists: dict[str, tuple[int, ...]] = {}

    def hinted(self, item: Observation, hints: Hints) -> tuple[int, ...]:
        for key in (item.name, item.kernel):
            if key in hints:
                hint = hints[key]
                wanted = (hint,) if isinstance(hint, str) else tuple(hint)
                for name in wanted:
                    if name not in self.known:
                        raise unknown("step of the prediction", name, self.names, f"It was named for '{key}'.")
                return tuple(place for place, name in enumerate(self.names) if name in wanted)
        return ()

    def named(self, item: Observation) -> tuple[int, ...]:
        """The steps that an observation names: one, or several where it names a module or lists them."""
        name = _plain(item.name)
        if name in self.steps:
            return self.steps[name]
        path = [_plain(part) for part in item.path[-MAX_LEVELS:]]
        keys = [name, *(".".join(path[start:]) for start in range(len(path))), *reversed(path)] if path else [name]
        for key in (*keys, _plain(item.settings.get("op", "")), _plain(item.kernel)):
            if key and key in self.steps:
                return self.steps[key]
        if "+" in name and (listed := self._listed(name)):
            return listed
        return next((self.modules[key] for key in keys if key in self.modules), ())

    def by_range(self, item: Observation) -> bool:
        """Whether the range or module around it names the step, and not its own name."""
        name = _plain(item.name)
        return bool(item.path) and name not in self.steps and name not in self.modules and "+" not in name

    def _listed(self, name: str) -> tuple[int, ...]:
        """The steps of a name such as `norm + fc`; none unless all of them are known."""
        if name not in self.lists:
            parts = {part.strip() for part in name.split("+")}
            known = parts <= self.steps.keys()
            self.lists[name] = tuple(sorted(place for part in parts for place in self.steps[part])) if known else ()
        return self.lists[name]

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
        self.backward = [BACKWARD in f"{step.name} {step.work.name}".lower() for step in prediction.steps]
        self.observations = observations
        self.places: dict[tuple[int, ...], list[int]] = defaultdict(list)  # of observations, by steps
        self.how: dict[tuple[int, ...], str] = {}
        self.free = dict.fromkeys(range(len(observations)))
        self.kernels: dict[int, Kernel] = {}
        self.needed: dict[int, Needed] = {}
        self.of_passes: dict[tuple[int, bool], tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def kernel(self, place: int) -> Kernel:
        if place not in self.kernels:
            self.kernels[place] = kernel_of(self.observations[place])
        return self.kernels[place]

    def step(self, place: int) -> Needed:
        if place not in self.needed:
            self.needed[place] = needed_by(self.works[place])
        return self.needed[place]

    def same_pass(self, step: int, place: int) -> bool:
        """Whether a step and an observation are both of the backward pass, or both not."""
        return self._is_backward(place) == self.backward[step]

    def _is_backward(self, place: int) -> bool:
        return self.observations[place].settings.get("pass") == BACKWARD

    def of_pass(self, steps: tuple[int, ...], place: int) -> tuple[int, ...]:
        """Of the steps that an observation names, those of its pass; found once for each tuple, whose steps may be many."""
        key = id(steps), self._is_backward(place)
        if key not in self.of_passes:
            fitting = tuple(step for step in steps if self.same_pass(step, place))
            self.of_passes[key] = (
                steps,
                steps if fitting == steps else fitting,
            )  # kept, so that its id is not given again
        return self.of_passes[key][1]

    def take(self, steps: tuple[int, ...], places: Iterable[int], how: str) -> None:
        of_steps = self.places[steps]
        for place in places:
            of_steps.append(place)
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
        known = self.kernels
        for place in self.free:
            kernel = known[place] if place in known else self.kernel(place)
            if last is not None and kernel.family == "helper":
                last.append(place)
            else:
                last = groups[place] = [place]
        return groups

    def by_order(self) -> None:
        steps = self._open()
        groups = self._with_helpers() if steps else {}
        if not steps or len(steps) != len(groups):
            return
        pairs = list(zip(steps, groups, strict=True))
        if all(self.same_pass(step, place) and may_be(self.step(step), self.kernel(place)) for step, place in pairs):
            for step, place in pairs:
                self.take((step,), groups[place], ORDER)

    def by_shape(self) -> None:
        """Kernels of a known family whose shapes name one step."""
        steps = self._open()
        fitting = Shapes({step: self.step(step) for step in steps})
        for place, group in self._with_helpers().items() if steps else ():
            kernel = self.kernel(place)
            if kernel.sizes is None or not kernel.family:
                continue
            step = fitting.only(kernel)
            if step is not None and self.same_pass(step, place):
                self.take((step,), group, SHAPE)

    def by_family(self) -> None:
        """By family, with as many kernels as steps, or a multiple in repeating order."""
        families: dict[str, list[int]] = defaultdict(list)
        for step in self._open():
            families[self.step(step).family].append(step)
        groups = self._with_helpers() if families else {}
        by_kernel: dict[str, list[int]] = defaultdict(list)
        for place in groups:
            by_kernel[self.kernel(place).family].append(place)
        for family, steps in families.items():
            sizes = Sizes([self.step(step) for step in steps])
            passes = {self.backward[step] for step in steps}
            serving = (places for served, places in by_kernel.items() if family in SERVED_BY.get(served, ()))
            fitting = sorted(
                place
                for places in serving
                for place in places
                if place in self.free and sizes.fit(self.kernel(place)) and passes == {self._is_backward(place)}
            )
            if not family or not fitting or len(fitting) % len(steps):
                continue  # which kernel is which step would be a guess
            kernels = [self.observations[place].kernel for place in fitting]
            if len(steps) == 1 or kernels == kernels[: len(steps)] * (len(fitting) // len(steps)):
                for turn, step in enumerate(steps):
                    for place in fitting[turn :: len(steps)]:
                        self.take((step,), groups[place], FAMILY)
