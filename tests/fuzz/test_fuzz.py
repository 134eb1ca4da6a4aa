"""A short run of the fuzzers: the whole corpus and some hundred seeded inputs of every target; `make fuzz` runs longer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import engine, run, targets
from fuzz.checks import hold
from fuzz.documents import EDITS, edited
from fuzz.engine import CORPUS, Session, corpus, fuzz
from fuzz.run import KINDS
from ridgeline.core.errors import InputError
from strategies import law

INPUTS = 100
FEWER = {
    "command": 60,
    "command-file": 60,
    "eval-csv": 60,
    "eval-json": 60,
    "ledger-file": 60,
    "ledger-records": 80,
    "machine": 120,
}


def told(session: Session) -> str:
    return "\n".join(f"{item.kind}: {item.what} at {item.frame}: {item.data[:200]!r}" for item in session.findings.values())  # fmt: skip


@pytest.mark.parametrize("target", sorted(targets.TARGETS))
def test_corpus_and_seeded_inputs_are_read_or_refused(target: str) -> None:
    session = fuzz(Session(target, seed=1, count=len(corpus(target)) + FEWER.get(target, INPUTS)))
    assert not session.findings, told(session)


@pytest.mark.parametrize("target", sorted(EDITS))
@law(10)
@given(chance=st.randoms(use_true_random=False), place=st.integers(0, 100))
def test_documents_with_wrong_values_are_read_or_refused(target: str, chance: object, place: int) -> None:
    seeds = [data for name, data in corpus(target).items() if "endless" not in name]
    data = edited(chance, target, seeds[place % len(seeds)])  # type: ignore[arg-type]
    finding = run.run(target, data)
    assert finding is None, f"{finding.kind}: {finding.what} at {finding.frame}: {data[:500]!r}"


def test_every_target_has_a_corpus() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(targets.TARGETS)
    assert all(len(data) < 100_000 for name in targets.TARGETS for data in corpus(name).values())


# -- the harness finds what it is for ----------------------------------------------------------------------------------


def spin(_data: bytes) -> None:
    while True:
        pass


def wait(_data: bytes) -> None:
    time.sleep(600)


def allocate(_data: bytes) -> None:
    try:
        kept = bytearray(3 << 30)
    except MemoryError as error:
        raise InputError("too large") from error
    kept[0] = 1


def raise_it(_data: bytes) -> None:
    raise ValueError("a fault")


def wrong(_data: bytes) -> None:
    hold(False, "a time is -1")


def die(_data: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(_data: bytes) -> None:
    raise InputError("this cannot be read")


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[bytes], None]], Session]:
    monkeypatch.setattr(run, "MAX_SECONDS", 0.2)

    def session(target: Callable[[bytes], None]) -> Session:
        monkeypatch.setitem(targets.TARGETS, "made", target)
        if target is wait:
            monkeypatch.setattr(engine, "MAX_WAIT", 0.5)
        return fuzz(Session("made", seed=1, count=2))

    return session


@pytest.mark.parametrize(
    ("target", "kind"), [(raise_it, KINDS[0]), (die, KINDS[0]), (spin, KINDS[1]), (wait, KINDS[1]), (allocate, KINDS[2]), (wrong, KINDS[3])]
)  # fmt: skip
def test_a_fault_is_found(harness: Callable[..., Session], target: Callable[[bytes], None], kind: str) -> None:
    session = harness(target)
    assert [item.kind for item in session.findings.values()] == [kind]
    assert session.inputs == 2


def test_a_refusal_is_none(harness: Callable[..., Session]) -> None:
    assert not harness(refuse).findings


def test_the_same_seed_makes_the_same_inputs() -> None:
    def first(seed: int) -> list[bytes]:
        made = engine.inputs(Session("plain-json", seed, count=100), 0, None, [])
        return [next(made) for _ in range(60)]

    assert first(1) == first(1) != first(2)


def test_a_finding_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs_two_letters(data: bytes) -> None:
        if b"x" in data and b"y" in data:
            raise ValueError("a fault")

    monkeypatch.setitem(targets.TARGETS, "made", needs_two_letters)
    finding = run.run("made", b"some x and some y with much around")
    assert finding is not None
    assert run.minimised(finding).data == b"xy"
