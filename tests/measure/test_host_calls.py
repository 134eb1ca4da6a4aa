"""What calls take on the host: the chains are what they say, and their figures reach the machine file and the predictions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import ridgeline as rl
from ridgeline.core.trace import FREE, WORK
from ridgeline.machines.calibrate import HOST, HOST_CALLS
from ridgeline.measure.cuda import host_calls
from ridgeline.measure.cuda.device import Library
from ridgeline.measure.cuda.latency import host_probes

pytestmark = pytest.mark.needs_torch
CHAINS = {"add", "allocate", "view", "module", "linear", "norm", "attention", "block", "forward", "backward"}


class Ticks:
    """A clock that advances by a second whenever it is read."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        self.time += 1.0
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short chains: products of a CPU take long where several programs share it."""
    monkeypatch.setattr(host_calls, "CALLS", 2)
    monkeypatch.setattr(host_calls, "BLOCKS", 1)
    monkeypatch.setattr(host_calls, "WARM_ROUNDS", 0)


def test_a_block_has_the_calls_that_its_time_is_divided_by() -> None:
    import torch

    block = host_calls.block(torch, "cpu", torch.bfloat16)
    with torch.no_grad():
        trace = rl.trace(block, torch.zeros(1, host_calls.TOKENS, host_calls.WIDTH, dtype=torch.bfloat16))
    kinds = Counter(trace.ops[op].kind for op in trace.op)
    assert kinds == {WORK: host_calls.BLOCK_CALLS, FREE: 26}
    assert trace.entered is not None
    assert trace.entered.sum() == 1 + 9  # the block, two norms, six products and an activation


def test_every_chain_is_timed_once_a_round(few: None) -> None:
    import torch

    calls = host_calls.HostCalls(torch, "cpu", Ticks())
    row = calls.round()
    assert set(row) == CHAINS
    assert row["add"] == 1 / 2  # a tick for two calls
    assert row["block"] == 1 / host_calls.BLOCK_CALLS
    assert host_calls.typical([{"a": 1.0}, {"a": 9.0}, {"a": 2.0}]) == {"a": 2.0}


def test_the_figures_of_a_host_are_measured_with_the_gpu(library: Library, few: None) -> None:
    clock: Any = Ticks()
    probes = host_probes(library, clock)
    assert [probe.name for probe in probes] == list(HOST_CALLS.values())
    for probe in probes:
        assert probe.target == HOST
        assert probe.call(24) > 0


def test_without_a_gpu_there_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert host_calls.main([]) == 2
    assert capsys.readouterr().err == "timing host calls needs torch with a CUDA GPU\n"
