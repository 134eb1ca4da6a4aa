"""A function timed and held to its roof or its expected time, with the certainty that the samples allow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, MissingFigure
from ...core.notes import DRIFT, NOISE, of_kind
from ...core.statistics import Vector, bootstrap_medians, quantile
from ...core.units import show
from ...core.version import __version__
from ...core.work import Work
from ...measure import conditions, protocol

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...prediction.predict import Prediction

ROUNDS = 15
MORE_ROUNDS = 3  # times as many, where the first ones leave the verdict open
MIN_SAMPLE_SECONDS = 0.005
MIN_CERTAINTY = 0.95  # of a miss that fails a test
MAX_OTHER_LOAD = 0.05  # share of the CPUs that other programs may use before a miss is attributed to them
ROOF, EXPECTED = "roof", "expected"


class NoMachine(Exception):
    """There are no ceilings to hold a function to."""


def timed(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    work: Work | None = None,
    rounds: int = ROUNDS,
    clock: protocol.Clock = protocol.REAL,
) -> Observation:
    """Samples of calling a function: warmed up, in loops long enough for the clock; on the GPU between two events."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise InputError(f"rounds is a whole number of at least 1, got {rounds!r}")
    given = dict(kwargs or {})
    device = gpu_of(function, args, given)

    def on_host(loops: int) -> None:
        for _ in range(loops):
            function(*args, **given)

    def on_device(loops: int) -> float:
        cuda = sys.modules["torch"].cuda
        with cuda.device(device):
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            on_host(loops)
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / 1e3

    label = name or getattr(function, "__name__", type(function).__name__)
    probe = protocol.Probe(label, label, on_host if device is None else on_device, work or Work())
    load = conditions.Watch()
    ran = protocol.interleave([probe], rounds, clock, min_seconds=MIN_SAMPLE_SECONDS)
    if device is None:
        known = {**conditions.cpu_conditions(), **load.conditions()}
    else:
        torch = sys.modules["torch"]
        gpu = torch.cuda.get_device_name(device)
        known = {"device": gpu, "torch": str(torch.__version__), "date": conditions.now()}
    return protocol.observation(ran.series[0], known, __version__, ran.partial)


def gpu_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The device of the first CUDA tensor among the arguments or a module's weights, None where there is none."""
    torch = sys.modules.get("torch")  # whoever has tensors has loaded it
    if torch is None:
        return None
    weights = list(function.parameters())[:1] if isinstance(function, torch.nn.Module) else []
    tensors = (item for item in (*args, *kwargs.values(), *weights) if isinstance(item, torch.Tensor))
    return next((tensor.device for tensor in tensors if tensor.is_cuda), None)


def disturbance(observation: Observation) -> str:
    """Why a slow run may not be the function's fault, or an empty text."""
    reasons = [note.removeprefix("disturbed: ") for note in of_kind(observation.notes, NOISE, DRIFT)]
    load = observation.conditions
    if "cpus" in load:
        others = load.get("others_busy", 0.0) + load.get("stolen", 0.0)
        if others > MAX_OTHER_LOAD * load["cpus"]:
            reasons.append(f"other programs used {others:.2g} of {load['cpus']} CPUs")
    return "; ".join(reasons)


@dataclass(frozen=True)
class Checked:
    """A function against its roof (or its expected time): `fraction` of it, between `low` and `high` in 19 cases of 20."""

    seen: Observation
    prediction: Prediction
    of: str
    at_least: float
    resident: str | None = None

    @property
    def reference(self) -> float:
        """Seconds at the roof, or expected."""
        return float(self.prediction.floor if self.of == ROOF else self.prediction.time)

    @property
    def fraction(self) -> float:
        return self.reference / self.seen.median

    @cached_property
    def _fractions(self) -> Vector:
        """Of resampled medians."""
        return self.reference / bootstrap_medians(self.seen.samples)

    @property
    def low(self) -> float:
        return quantile(self._fractions, 0.025)

    @property
    def high(self) -> float:
        return quantile(self._fractions, 0.975)

    @property
    def missing(self) -> float:
        """How likely the fraction is below what was asked for."""
        return float((self._fractions < self.at_least).mean())

    @property
    def open(self) -> bool:
        """Below what was asked for, and not surely so."""
        return self.fraction < self.at_least and self.missing < MIN_CERTAINTY

    @property
    def holds(self) -> bool:
        return self.fraction >= self.at_least or self.open

    def __str__(self) -> str:
        bound = self.prediction.bounds[0]
        against = "roof" if self.of == ROOF else "expected time"
        where = f", data in {self.resident}" if self.resident else ""
        return (
            f"{self.seen.name}: {self.fraction:.1%} of the {against}, asked for at least {self.at_least:.0%}\n"
            f"  measured {show(self.seen.median, 's')} (median of {len(self.seen.samples)} samples, spread {self.seen.spread:.1%})\n"
            f"  {against} {show(self.reference, 's')} ({bound.bound}-bound by {bound.limiter}{where}; {bound.kinds} ceilings of {self.prediction.machine.name})\n"
            f"  the fraction lies between {self.low:.1%} and {self.high:.1%}; below {self.at_least:.0%} with {self.missing:.0%} certainty"
        )


def check(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    at_least: float = 0.7,
    of: str = ROOF,
    work: Work | None = None,
    machine: str | Machine = "here",
    rounds: int = ROUNDS,
    name: str = "",
    resident: str | None = None,
    ceilings: str | None = "measured",
    clock: protocol.Clock = protocol.REAL,
) -> Checked:
    """Time a function and hold it to its roof; NoMachine where there is none, InputError where it was asked for wrongly."""
    from ...programs.calls import work_of_call as called

    if of not in (ROOF, EXPECTED):
        raise InputError(f"ridgeline_check: of is '{ROOF}' or '{EXPECTED}', got {of!r}")
    if not isinstance(at_least, int | float) or not at_least > 0:
        raise InputError(f"ridgeline_check: at_least is a fraction above 0, such as 0.7, got {at_least!r}")
    work = work if work is not None else called(function, args)
    if work is None:
        raise InputError(
            "ridgeline_check: the work of this call is not known; give it, as in work=ridgeline.ops.gemm(m=512, n=512, k=512, dtype='fp32')"
        )
    prediction, resident = _predicted(work, machine, gpu_of(function, args, kwargs or {}), resident, ceilings)
    for count in (rounds, MORE_ROUNDS * rounds):
        observation = timed(function, args, kwargs, name, work, count, clock)
        checked = Checked(observation, prediction, of, at_least, resident)
        if not checked.open:
            break
    return checked


def _predicted(
    work: Work, machine: str | Machine, device: Any, resident: str | None, ceilings: str | None
) -> tuple[Prediction, str | None]:
    """The prediction a call is held to, and the level its data sit at."""
    from ...prediction.predict import predict

    try:
        chosen = find_machine(machine, device)
    except InputError as error:
        raise NoMachine(str(error)) from error
    level = resident or holding(chosen, float(work.footprint), ceilings)
    try:
        return predict(work, chosen, ceilings=ceilings, resident=level), level
    except MissingFigure as missing:
        hint = "" if "ridgeline measure" in str(missing) else "; measured figures come from `ridgeline measure`"
        raise NoMachine(f"{str(missing).rstrip('.')}{hint}") from missing


def find_machine(machine: str | Machine, device: Any) -> Machine:
    """The machine asked for; `here` is the GPU the tensors are on, else the CPU."""
    from ...machines.load import load

    if not isinstance(machine, str):
        return machine
    if machine != "here":
        return load(machine)
    return load("here:cpu" if device is None else f"here:gpu{device.index or ''}")


def holding(machine: Machine, footprint: float, ceilings: str | None) -> str | None:
    """The innermost level that holds the data of a call twice over, None where that is the main memory.

    A function called again and again finds its data where the last call left them, and is held to that level's roof.
    """
    for level in machine.levels[:-1]:
        if level.total and level.total >= 2 * footprint and level.bandwidth.value(ceilings) is not None:
            return level.name
    return None
