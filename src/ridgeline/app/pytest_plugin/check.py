"""A function timed and compared with its roofline or its expected time, with a confidence from its samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...core.bound import bound_words
from ...core.cached import cached_property
from ...core.errors import InputError, MissingFigure
from ...core.notes import DRIFT, NOISE, of_kind
from ...core.statistics import Vector, bootstrap_medians, quantile
from ...core.units import percent, show
from ...core.version import __version__
from ...core.work import Work
from ...measure import conditions, protocol, shared

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...prediction.predict import Prediction

ROUNDS = 15
MORE_ROUNDS = (1, 3)  # of the rounds asked for, one set after the other as long as they leave the verdict open
MIN_SAMPLE_SECONDS = 0.005
MIN_CERTAINTY = 0.95  # confidence of a miss that fails a test
MAX_OTHER_LOAD = 0.05  # share of the CPUs that other processes may use before a miss counts as noise
MAX_SHARE = 1.05  # of the roofline; above it the counts or the ceilings are wrong, or the function does nothing
UNKNOWN_LOAD = 1.0  # other busy CPUs that are assumed where samples are noisy and the system does not say why
ROOF, EXPECTED = "roof", "expected"
PASS, FAIL, BROKEN, OPEN, UNSURE = "pass", "fail", "broken", "open", "unsure"  # verdicts of a check


class NoMachine(Exception):
    """There are no ceilings to compare with."""


def timed(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    work: Work | None = None,
    rounds: int = ROUNDS,
    clock: protocol.Clock = protocol.REAL,
) -> Observation:
    """Samples of a function: warmed up, in loops long enough for the clock; on the GPU between two events."""
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise InputError(f"rounds is an integer of at least 1, got {rounds!r}")
    given = dict(kwargs or {})
    device = gpu_of(function, args, given)

    def calls(loops: int) -> None:
        for _ in range(loops):
            function(*args, **given)

    def on_host(loops: int) -> protocol.Timing:
        return shared.watched(lambda: calls(loops), clock)

    def on_device(loops: int) -> float:
        cuda = sys.modules["torch"].cuda
        with cuda.device(device):
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            calls(loops)
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
    series = ran.series[0]
    seen = protocol.observation(series, known, __version__, ran.partial)
    return replace(seen, samples=tuple(shared.fair_samples(series)))


def gpu_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The device of the first CUDA tensor among the arguments or a module's weights, None where there is none."""
    torch = sys.modules.get("torch")  # loaded wherever there are tensors
    if torch is None:
        return None
    weights = list(function.parameters())[:1] if isinstance(function, torch.nn.Module) else []
    tensors = (item for item in (*args, *kwargs.values(), *weights) if isinstance(item, torch.Tensor))
    return next((tensor.device for tensor in tensors if tensor.is_cuda), None)


def noise_of(observation: Observation) -> str:
    """Noise that may explain a slow run; empty without any."""
    reasons = [note.removeprefix("noisy: ") for note in of_kind(observation.notes, NOISE, DRIFT)]
    load = observation.conditions
    if "cpus" in load:
        others = load.get("others_busy", 0.0) + load.get("stolen", 0.0)
        if others > MAX_OTHER_LOAD * load["cpus"]:
            reasons.append(f"other processes used {others:.2g} of {load['cpus']} CPUs")
    return "; ".join(reasons)


@dataclass(frozen=True)
class Checked:
    """A function against its roofline or expected time: the fraction achieved, with a 95 % confidence interval."""

    seen: Observation
    prediction: Prediction
    of: str
    at_least: float
    resident: str | None = None

    @property
    def reference(self) -> float:
        """Seconds at the roofline, or expected."""
        return float(self.prediction.roofline if self.of == ROOF else self.prediction.time)

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
        """Confidence that the fraction is below `at_least`."""
        return float((self._fractions < self.at_least).mean())

    @property
    def share(self) -> float:
        """Of the roofline, whatever the fraction is of."""
        return float(self.prediction.roofline) / self.seen.median

    @property
    def best(self) -> float:
        """The fraction of the fastest sample: what others take from a function only adds to its times."""
        return self.reference / min(self.seen.samples)

    @cached_property
    def noise(self) -> str:
        return noise_of(self.seen)

    @property
    def contention(self) -> float:
        """The factor by which neighbours can slow a function while it runs: its fair share of a shared core or memory.

        Samples are already without the time in which its threads waited for a core.
        """
        load = self.seen.conditions
        known = "others_busy" in load or "stolen" in load
        return 1 + (load.get("others_busy", 0.0) + load.get("stolen", 0.0) if known else UNKNOWN_LOAD)

    @cached_property
    def verdict(self) -> str:
        """PASS; FAIL; BROKEN above the roofline; OPEN where samples, UNSURE where neighbours may explain the miss."""
        if self.share > MAX_SHARE:
            return BROKEN
        if self.fraction >= self.at_least:
            return PASS
        if not self.noise:
            return FAIL if self.missing >= MIN_CERTAINTY else OPEN
        if self.best >= self.at_least:
            return PASS
        return FAIL if self.best * self.contention < self.at_least else UNSURE

    def __str__(self) -> str:
        bound = self.prediction.bounds[0]
        against = "roofline" if self.of == ROOF else "expected time"
        where = f", data in {self.resident}" if self.resident else ""
        ceilings = f"{bound.kinds} ceilings of {self.prediction.machine.name}"
        best = f", best sample {percent(self.best)}; noisy: {self.noise}" if self.noise else ""
        return (
            f"{self.seen.name}: {percent(self.fraction)} of {against}{best}, required {percent(self.at_least)}\n"
            f"  measured {show(self.seen.median, 's')} (median of {len(self.seen.samples)} samples, spread {percent(self.seen.spread)})\n"
            f"  {against} {show(self.reference, 's')}, {bound_words(str(bound.bound))} ({bound.limiter}{where}), {ceilings}\n"
            f"  95 % interval {percent(self.low)} to {percent(self.high)}; below {percent(self.at_least)} with {percent(self.missing)} confidence"
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
    """Time a function and compare it with its roofline; NoMachine without ceilings, InputError for wrong options."""
    from ...programs.aten.python_calls import work_of_call as called

    if of not in (ROOF, EXPECTED):
        raise InputError(f"ridgeline_check: of is '{ROOF}' or '{EXPECTED}', got {of!r}")
    if not isinstance(at_least, int | float) or not at_least > 0:
        raise InputError(f"ridgeline_check: at_least is a fraction above 0, such as 0.7, got {at_least!r}")
    work = work if work is not None else called(function, args, kwargs)
    if work is None:
        raise InputError(
            "ridgeline_check: the work of this call is unknown; give it, as in work=ridgeline.ops.gemm(m=512, n=512, k=512, dtype='fp32')"
        )
    prediction, resident = _predicted(work, machine, gpu_of(function, args, kwargs or {}), resident, ceilings)
    samples: tuple[float, ...] = ()
    for factor in MORE_ROUNDS:
        observation = timed(function, args, kwargs, name, work, factor * rounds, clock)
        samples = (*samples, *observation.samples) if noise_of(observation) else observation.samples
        checked = Checked(replace(observation, samples=samples), prediction, of, at_least, resident)
        if checked.verdict not in (OPEN, UNSURE):
            break
    return checked


def _predicted(
    work: Work, machine: str | Machine, device: Any, resident: str | None, ceilings: str | None
) -> tuple[Prediction, str | None]:
    """The prediction of a call, and the memory level of its data."""
    from ...prediction.predict import predict
    from ...prediction.residence import holding

    try:
        chosen = find_machine(machine, device)
    except InputError as error:
        raise NoMachine(str(error)) from error
    level = resident or holding(chosen, float(work.footprint), ceilings)
    try:
        return predict(work, chosen, ceilings=ceilings, resident=level), level
    except MissingFigure as missing:
        hint = "" if "ridgeline measure" in str(missing) else "; run `ridgeline measure`"
        raise NoMachine(f"{str(missing).rstrip('.')}{hint}") from missing


def find_machine(machine: str | Machine, device: Any) -> Machine:
    """The named machine; `here` is the GPU of the tensors, else the CPU."""
    from ...machines.load import load

    if not isinstance(machine, str):
        return machine
    if machine != "here":
        return load(machine)
    return load("here:cpu" if device is None else f"here:gpu{device.index or ''}")
