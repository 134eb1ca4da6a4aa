"""The pytest plugin: `ridgeline_check` asserts a share of roofline, `ridgeline_record` stores samples.

    def test_product(ridgeline_check):
        ridgeline_check(np.matmul, (a, b), at_least=0.7)

`--ridgeline-out FILE` writes all samples for `ridgeline gate`. pytest loads this file in every project that has ridgeline
installed, so it imports nothing until a test asks for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ...core.observation import Observation
    from .check import Checked


class RidgelineWarning(UserWarning):
    """A check that passed and still needs attention."""


class Records:
    """The observations of a session, as documents."""

    def __init__(self) -> None:
        self.observations: list[dict[str, Any]] = []
        self.failure = ""

    def name(self, wanted: str) -> str:
        """The wanted name, with its turn where a test times several functions under it."""
        taken = {row["name"] for row in self.observations}
        turns = (f"{wanted} ({turn})" for turn in count(2))
        return next(name for name in chain([wanted], turns) if name not in taken)

    def keep(self, observation: Observation) -> None:
        from ...core.documents import to_document

        self.observations.append(to_document(observation))

    def write(self, out: str) -> None:
        import json

        from ...core.files import write_text
        from ...core.observation import SCHEMA
        from ...core.version import __version__

        document = {"schema": SCHEMA, "ridgeline": __version__, "observations": self.observations}
        write_text(out, json.dumps(document, indent=1) + "\n")


KEY = pytest.StashKey[Records]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ridgeline")
    group.addoption("--ridgeline-out", metavar="FILE", help="write the samples of timed functions as JSON for `ridgeline gate`")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEY] = Records()
    out = config.getoption("--ridgeline-out")
    if out:
        from ...core.errors import InputError
        from ...core.files import writable

        try:
            writable(out)
        except InputError as error:
            raise pytest.UsageError(f"--ridgeline-out: {error}") from None


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
            records.write(out)
        except Exception as error:  # pytest would report its own internals instead of the file
            records.failure = str(error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    out, records = config.getoption("--ridgeline-out"), config.stash[KEY]
    if not out:
        return
    if records.failure:
        terminalreporter.write_line(f"ridgeline: {records.failure}", red=True)
    else:
        terminalreporter.write_line(f"ridgeline: {len(records.observations)} timings written to {out}")


@pytest.fixture
def ridgeline_check(request: pytest.FixtureRequest) -> Callable[..., Checked]:
    """Assert a share of roofline: `ridgeline_check(fn, args, at_least=0.7)`.

    The options are those of `ridgeline.app.pytest_plugin.check.check`. Skips, with the reason, where the machine is
    unknown or not measured, and where other processes are busy enough to explain a miss by the fastest sample.
    """
    records = request.config.stash[KEY]

    def run(function: Callable[..., Any], args: Sequence[Any] = (), **options: Any) -> Checked:
        from .check import NoMachine, check

        options["name"] = records.name(options.get("name") or request.node.nodeid)
        try:
            checked = _fail_on_bad_input("", check, function, args, options)
        except NoMachine as error:
            pytest.skip(f"no measured machine: {error}")
        records.keep(checked.seen)
        return _report(checked)

    return run


@pytest.fixture
def ridgeline_record(request: pytest.FixtureRequest) -> Callable[..., Observation]:
    """Time a function and store its samples for `--ridgeline-out`: `ridgeline_record(fn, args, name="step")`."""
    records = request.config.stash[KEY]

    def run(function: Callable[..., Any], args: Sequence[Any] = (), **options: Any) -> Observation:
        from .check import timed

        options["name"] = records.name(options.get("name") or request.node.nodeid)
        observation: Observation = _fail_on_bad_input("ridgeline_record: ", timed, function, args, options)
        records.keep(observation)
        return observation

    return run


def _fail_on_bad_input(prefix: str, call: Callable[..., Any], function: Any, args: Any, options: dict[str, Any]) -> Any:
    """Call with options; a wrong one fails the test with one message."""
    from ...core.errors import RidgelineError

    try:
        return call(function, args, **options)
    except RidgelineError as error:
        message = f"{prefix}{error}"
    pytest.fail(message, pytrace=False)  # out here, so that the report has the message once


def _report(checked: Checked) -> Checked:
    """Pass, warn, skip or fail."""
    from ...core.units import percent
    from . import check

    if checked.verdict == check.BROKEN:
        reason = "the function does less than its counts, or the ceilings or the cache level of its data are wrong"
        pytest.fail(f"broken test, {percent(checked.share)} of roofline: {reason}\n{checked}", pytrace=False)
    if checked.verdict == check.FAIL:
        pytest.fail(str(checked), pytrace=False)
    if checked.verdict == check.UNSURE:
        slowed = f"neighbours may slow it {checked.contention:.2g} times"
        pytest.skip(f"cannot decide on this busy machine ({slowed}): {checked}")
    if checked.verdict == check.OPEN:
        warnings.warn(RidgelineWarning(f"inconclusive, counted as passed: {checked}"), stacklevel=3)
    return checked
