"""The main job on a GPU that is not there: its child processes are replaced by what they would leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ridgeline.app import run
from ridgeline.app.cli.measure import run_result
from ridgeline.app.run import cpu, cuda
from ridgeline.core.errors import InputError
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.gaps.ledger import open_ledger
from ridgeline.machines.load import load
from ridgeline.measure.cuda import suite
from ridgeline.measure.cuda.timing import Timed
from ridgeline.prediction.predict import predict

HBM, BF16 = 4.6e9, 0.83e12  # bytes and flops per millisecond
REFUSED = "int4 linear"


def ceilings() -> list[Observation]:
    read = Work(moves={("main", "a", "read"): HBM}, name="read")
    product = Work(counts={("matrix", "bf16", "fma"): BF16}, name="gemm")
    return [
        Observation("read", "hbm", (1e-3, 1.01e-3), read, {"mix": "read", "state": "cold"}),
        Observation("gemm bf16 burst", "tensor.bf16", (1e-3, 1.01e-3), product, {"burst": True}),
    ]


def timings(machine: Machine) -> dict[str, Timed]:
    """Every kernel takes 4 % longer than expected; one has no path in this torch."""
    rows = {}
    for kernel in suite.kernels():
        seconds = 1.04 * float(predict(kernel.work, machine).time)
        samples = tuple(seconds * factor for factor in (1.0, 1.01, 0.99))
        rows[kernel.name] = Timed(kernel.case, samples, samples, (("some_kernel", seconds),))
    rows[REFUSED] = Timed(suite.CASES[REFUSED], reason="no such operator")
    return rows


@pytest.fixture(scope="module")
def h200() -> Machine:
    return load("h200-sxm")


@pytest.fixture
def outcome(h200: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> run.Outcome:
    asked: list[str] = []

    def child(arguments: list[str], on_progress: Callable[..., None]) -> Any:
        asked.append(arguments[0])
        return ceilings() if arguments[0] == "ceilings" else timings(h200)

    monkeypatch.setattr(suite, "_in_child", child)
    monkeypatch.setattr(cuda.detect, "here", lambda which: h200)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: object())
    result = run.job(cuda.CudaBench(), ledger=open_ledger(tmp_path / "ledger.sqlite"))
    assert asked == ["ceilings", "kernels"]
    return result


def test_about_twelve_kernels_of_every_regime() -> None:
    kernels = suite.kernels()
    ops = {str(kernel.case["op"]) for kernel in kernels}
    assert {"gemm", "linear", "gemv", "softmax", "layernorm", "sum", "attention", "conv2d", "embedding"} <= ops
    assert 11 <= len(kernels) <= 14
    assert all(float(kernel.work.bytes) > 0 for kernel in kernels)


def test_the_loop_on_a_gpu(outcome: run.Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    names = [item["name"] for item in outcome.items]
    assert names == [name for name in suite.CASES if name != REFUSED]
    assert [row["name"] for row in outcome.sealed["predictions"]] == list(suite.CASES)
    assert outcome.machine.bandwidth("hbm").kind == "measured"
    assert outcome.summary.place == "132 SMs"
    assert outcome.summary.inside >= 10  # the expected time is the one that calibrated families give
    run_result(outcome, Path("report.html")).show()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("ridgeline run   NVIDIA H200")
    assert any(f"not timed: {REFUSED} (no such operator)" in line for line in lines)


def test_the_gpu_is_the_default_where_there_is_one_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "available", lambda: True)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: object())
    assert isinstance(run.bench_of(), cuda.CudaBench)
    assert isinstance(run.bench_of("cpu"), cpu.CpuBench)
    monkeypatch.setattr(cuda, "available", lambda: False)
    assert isinstance(run.bench_of(), cpu.CpuBench)


def test_a_gpu_run_without_torch_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="torch is not installed: install ridgeline"):
        run.bench_of("cuda")


def test_a_child_that_fails_is_one_message_with_its_last_line() -> None:
    with pytest.raises(InputError, match="the GPU could not be measured: 'nothing' is neither"):
        suite._in_child(["nothing"], lambda *_: None)


def test_a_child_that_dies_after_writing_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory corruption when a process ends does not take its results away."""
    script = tmp_path / "child.py"
    script.write_text("import os, pickle, sys\nopen(sys.argv[4], 'wb').write(pickle.dumps([1]))\nos.abort()\n")
    real = suite.subprocess.Popen
    monkeypatch.setattr(suite.subprocess, "Popen", lambda words, **options: real([words[0], str(script), *words[1:]], **options))  # fmt: skip
    assert suite._in_child(["ceilings"], lambda *_: None) == [1]
