"""The pytest plugin: `ridgeline_check` holds a function to a share of its roof, `ridgeline_record` keeps its samples.

    def test_product(ridgeline_check):
        ridgeline_check(np.matmul, (a, b), at_least=0.7)

`--ridgeline-out FILE` writes all samples for `ridgeline gate`. pytest loads this file in every project that has ridgeline
installed, so it imports nothing until a test asks for it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..core.machine import Machine
    from ..core.observation import Observation
    from ..core.work import Work
    from ..prediction.predict import Prediction

ROUNDS = 15
AGAIN = 3  # times as many rounds, where the first ones leave the verdict open
LEAST = 0.005  # seconds of one sample
SURE = 0.95  # how likely a miss must be before it fails a test
OTHERS = 0.05  # share of the CPUs that other programs may use before a miss is put down to them
ABOVE = 1.05  # faster than the roof by more than measuring error: the roof or the counts are wrong
ROOF, EXPECTED = "roof", "expected"


class RidgelineWarning(UserWarning):
    """A check that passed and still has something to say."""


class NoMachine(Exception):
    """There are no ceilings to hold a function to."""


class Records:
    """The observations of a session, as documents."""

    def __init__(self) -> None:
        self.observations: list[dict[str, Any]] = []
        self.failure = ""

    def name(self, wanted: str) -> str:
        """The wanted name, with its turn where a test times several functions under it."""
        taken = {row["name"] for row in self.observations}
        turn, name = 1, wanted
        while name in taken:
            turn += 1
            name = f"{wanted} ({turn})"
        return name


KEY = pytest.StashKey[Records]()


# -- hooks ----------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ridgeline")
    group.addoption("--ridgeline-out", metavar="FILE", help="write the samples of timed functions here, as JSON for `ridgeline gate`")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEY] = Records()
    out = config.getoption("--ridgeline-out")
    if out:
        from pathlib import Path

        place = Path(out).expanduser()
        if place.is_dir() or not place.parent.is_dir():
            raise pytest.UsageError(f"--ridgeline-out {out}: name a file in a folder that exists")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What a worker of pytest-xdist recorded comes to the process that writes the file."""
    node.config.stash[KEY].observations += getattr(node, "workeroutput", {}).get("ridgeline", [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    records, out = config.stash[KEY], config.getoption("--ridgeline-out")
    if hasattr(config, "workeroutput"):
        config.workeroutput["ridgeline"] = records.observations
    elif out:
        try:
            _write(records, out)
        except Exception as error:  # pytest would report its own internals instead of the file
            records.failure = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


def _write(records: Records, out: str) -> None:
    import json

    from ..core.files import write_text
    from ..core.observation import SCHEMA
    from ..core.version import __version__

    whole = {"schema": SCHEMA, "ridgeline": __version__, "observations": records.observations}
    write_text(out, json.dumps(whole, indent=1) + "\n")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    out, records = config.getoption("--ridgeline-out"), config.stash[KEY]
    if not out:
        return
    if records.failure:
        terminalreporter.write_line(f"ridgeline: {records.failure}", red=True)
    else:
        terminalreporter.write_line(f"ridgeline: {len(records.observations)} timings written to {out}")


# -- timing ---------------------------------------------------------------------------------------------------


def _on_gpu(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The device of the first CUDA tensor among the arguments or a module's weights, None where there is none."""
    torch = sys.modules.get("torch")  # whoever has tensors has loaded it
    if torch is None:
        return None
    weights = list(function.parameters())[:1] if isinstance(function, torch.nn.Module) else []
    found = [item for item in (*args, *kwargs.values(), *weights) if isinstance(item, torch.Tensor) and item.is_cuda]
    return found[0].device if found else None


def timed(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    work: Work | None = None,
    rounds: int = ROUNDS,
    clock: Any = None,
) -> Observation:
    """Samples of calling a function: warmed up, in loops long enough for the clock; on the GPU between two events."""
    from ..core.errors import InputError
    from ..core.version import __version__
    from ..core.work import Work as Nothing
    from ..measure import conditions, protocol

    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise InputError(f"rounds is a whole number of at least 1, got {rounds!r}")
    given = dict(kwargs or {})
    device = _on_gpu(function, args, given)

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
    probe = protocol.Probe(label, label, on_host if device is None else on_device, work or Nothing())
    around = _watch()
    ran = protocol.interleave([probe], rounds, clock or protocol.REAL, min_seconds=LEAST)
    if device is None:
        known = {**conditions.cpu_conditions(), **around()}
    else:
        torch = sys.modules["torch"]
        known = {
            "date": conditions.now(),
            "device": torch.cuda.get_device_name(device),
            "torch": str(torch.__version__),
        }
    return protocol.observation(ran.series[0], known, __version__, ran.partial)


def _watch() -> Callable[[], dict[str, Any]]:
    """Begins to watch what other programs take of the CPUs; the answer tells."""
    from ..measure.conditions import Watch

    return Watch().conditions


def disturbance(seen: Observation) -> str:
    """Why a slow run may not be the function's fault, or an empty text."""
    from ..core.notes import DRIFT, NOISE, of_kind

    told = [note.removeprefix("disturbed: ") for note in of_kind(seen.notes, NOISE, DRIFT)]
    if "cpus" in seen.conditions:
        others = seen.conditions.get("others_busy", 0.0) + seen.conditions.get("stolen", 0.0)
        if others > OTHERS * seen.conditions["cpus"]:
            told.append(f"other programs used {others:.2g} of {seen.conditions['cpus']} CPUs")
    return "; ".join(told)


# -- judging --------------------------------------------------------------------------------------------------


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

    def _fractions(self) -> Any:
        from ..gaps.gate import medians

        return self.reference / medians(self.seen.samples)

    @property
    def low(self) -> float:
        return float(_quantile(self._fractions(), 0.025))

    @property
    def high(self) -> float:
        return float(_quantile(self._fractions(), 0.975))

    @property
    def missing(self) -> float:
        """How likely the fraction is below what was asked for."""
        return float((self._fractions() < self.at_least).mean())

    @property
    def open(self) -> bool:
        """Below what was asked for, and not surely so."""
        return self.fraction < self.at_least and self.missing < SURE

    @property
    def holds(self) -> bool:
        return self.fraction >= self.at_least or self.open

    def __str__(self) -> str:
        from ..core.units import show

        bound = self.prediction.bounds[0]
        against = "roof" if self.of == ROOF else "expected time"
        where = f", data in {self.resident}" if self.resident else ""
        return (
            f"{self.seen.name}: {self.fraction:.1%} of the {against}, asked for at least {self.at_least:.0%}\n"
            f"  measured {show(self.seen.median, 's')} (median of {len(self.seen.samples)} samples, spread {self.seen.spread:.1%})\n"
            f"  {against} {show(self.reference, 's')} ({bound.bound}-bound by {bound.limiter}{where}; {bound.kinds} ceilings of {self.prediction.machine.name})\n"
            f"  the fraction lies between {self.low:.1%} and {self.high:.1%}; below {self.at_least:.0%} with {self.missing:.0%} certainty"
        )


def _quantile(values: Any, share: float) -> float:
    import numpy as np

    return float(np.quantile(values, share))


def find_machine(asked: str | Machine, device: Any) -> Machine:
    """The machine asked for; `here` is the GPU the tensors are on, else the CPU."""
    from ..machines.load import load

    if not isinstance(asked, str):
        return asked
    if asked != "here":
        return load(asked)
    return load("here:cpu" if device is None else f"here:gpu{device.index or ''}")


def holding(machine: Machine, footprint: float, ceilings: str | None) -> str | None:
    """The innermost level that holds the data of a call twice over, None where that is the main memory.

    A function called again and again finds its data where the last call left them, and is held to that level's roof.
    """
    for level in machine.levels[:-1]:
        if level.total and level.total >= 2 * footprint and level.bandwidth.value(ceilings) is not None:
            return level.name
    return None


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
    clock: Any = None,
) -> Checked:
    """Time a function and hold it to its roof; NoMachine where there is none, InputError where it was asked for wrongly."""
    from ..core.errors import InputError, MissingFigure
    from ..prediction.predict import predict
    from ..programs.calls import called

    if of not in (ROOF, EXPECTED):
        raise InputError(f"ridgeline_check: of is '{ROOF}' or '{EXPECTED}', got {of!r}")
    if not isinstance(at_least, int | float) or not at_least > 0:
        raise InputError(f"ridgeline_check: at_least is a fraction above 0, such as 0.7, got {at_least!r}")
    counted = work if work is not None else called(function, args)
    if counted is None:
        raise InputError(
            "ridgeline_check: the work of this call is not known; give it, as in work=ridgeline.ops.gemm(m=512, n=512, k=512, dtype='fp32')"
        )
    try:
        chosen = find_machine(machine, _on_gpu(function, args, kwargs or {}))
    except InputError as error:
        raise NoMachine(str(error)) from error
    level = resident or holding(chosen, float(counted.footprint), ceilings)
    try:
        made = predict(counted, chosen, ceilings=ceilings, resident=level)
    except MissingFigure as missing:
        told = "" if "ridgeline measure" in str(missing) else "; measured figures come from `ridgeline measure`"
        raise NoMachine(f"{str(missing).rstrip('.')}{told}") from missing
    for count in (rounds, AGAIN * rounds):
        seen = timed(function, args, kwargs, name, counted, count, clock)
        found = Checked(seen, made, of, at_least, level)
        if not found.open:
            break
    return found


# -- fixtures -------------------------------------------------------------------------------------------------


@pytest.fixture
def ridgeline_check(request: pytest.FixtureRequest) -> Callable[..., Checked]:
    """Hold a function to a share of its roof: `ridgeline_check(fn, args, at_least=0.7)`.

    The options are those of `ridgeline.pytest_plugin.check`. Skips, with the reason, where the machine is not known or
    not measured, and where a miss may be the fault of other programs.
    """
    records = request.config.stash[KEY]

    def run(function: Callable[..., Any], args: Sequence[Any] = (), **options: Any) -> Checked:
        from ..core.errors import InputError

        options["name"] = records.name(options.get("name") or request.node.nodeid)
        wrong = ""
        try:
            found = check(function, args, **options)
        except NoMachine as error:
            pytest.skip(f"no machine to hold it to: {error}")
        except InputError as error:
            wrong = str(error)
        if wrong:  # out here, so that the report has the message once
            pytest.fail(wrong, pytrace=False)
        records.observations.append(found.seen.document())
        return _settled(found)

    return run


def _settled(found: Checked) -> Checked:
    """Passes, warns, skips or fails by what was found."""
    if not found.holds:
        why = disturbance(found.seen)
        if why:
            pytest.skip(f"the run was disturbed ({why}), so this may not be the function's fault: {found}")
        pytest.fail(str(found), pytrace=False)
    if found.open:
        warnings.warn(RidgelineWarning(f"too near to tell, taken as passed: {found}"), stacklevel=3)
    elif found.of == ROOF and found.fraction > ABOVE:
        warnings.warn(
            RidgelineWarning(
                f"faster than its roof, so the counts, the place of the data or the ceilings are wrong: {found}"
            ),
            stacklevel=3,
        )
    return found


@pytest.fixture
def ridgeline_record(request: pytest.FixtureRequest) -> Callable[..., Observation]:
    """Time a function and keep its samples for `--ridgeline-out`: `ridgeline_record(fn, args, name="step")`."""
    records = request.config.stash[KEY]

    def run(function: Callable[..., Any], args: Sequence[Any] = (), **options: Any) -> Observation:
        from ..core.errors import InputError

        options["name"] = records.name(options.get("name") or request.node.nodeid)
        wrong = ""
        try:
            seen = timed(function, args, **options)
        except InputError as error:
            wrong = str(error)
        if wrong:
            pytest.fail(f"ridgeline_record: {wrong}", pytrace=False)
        records.observations.append(seen.document())
        return seen

    return run
