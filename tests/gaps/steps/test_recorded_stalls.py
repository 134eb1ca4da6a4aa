"""Waits for data in steps that were really run and recorded, on the host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ridgeline.gaps.steps.report import ProgramReport, program_report
from ridgeline.machines.load import load
from ridgeline.profilers.load import timeline

torch = pytest.importorskip("torch")
BATCH, EACH = 4, 0.01


class Samples(torch.utils.data.Dataset[Any]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 6 * BATCH

    def __getitem__(self, place: int) -> Any:
        time.sleep(self.seconds)
        return torch.zeros(8)


def recorded(seconds: float, path: Path) -> ProgramReport:
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for batch in torch.utils.data.DataLoader(Samples(seconds), batch_size=BATCH):
            layer(batch).sum().backward()
            optimizer.step()
    profiler.export_chrome_trace(str(path))
    return program_report(timeline(path), load("xeon-8480plus"))


def test_a_loader_that_sleeps_is_named_with_the_time_it_takes(tmp_path: Path) -> None:
    stalled = recorded(EACH, tmp_path / "slow.json")
    first = stalled.moves[0]
    assert first.rule == "data loader"
    assert first.gain is not None
    assert BATCH * EACH / 2 <= first.gain <= stalled.view.wall  # the last wait finds no batch
    assert "num_workers" in first.move
