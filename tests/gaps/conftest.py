"""The recorded Nsight Compute report of an H200, reconciled once; an empty ledger whose clock the test moves."""

from __future__ import annotations

from pathlib import Path

import pytest
from gap_samples import H200, NCU, RECORDED
from ledger_samples import Clock

from ridgeline.core.work import Program, Step
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.ledger import Ledger, open_ledger
from ridgeline.gaps.report import Report, reconcile
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe


@pytest.fixture(scope="session")
def recorded() -> Report:
    program = Program(tuple(Step(name, work) for name, work in RECORDED.items()))
    return reconcile(predict(program, H200), observe.load(NCU / "h200_raw.csv"))


@pytest.fixture(scope="session")
def gaps(recorded: Report) -> dict[str, Gap]:
    return {item.name: item.gap for item in recorded.items}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Ledger:
    return open_ledger(tmp_path / "book.sqlite", clock)
