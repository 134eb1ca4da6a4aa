"""`rl.explain`: the operators of a function, their counts and their times on a machine."""

from __future__ import annotations

from typing import Any

import pytest

import ridgeline as rl

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_torch


def layers() -> Any:
    with torch.device("meta"):
        return torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))


def test_forward_and_backward_are_counted_without_computing_anything() -> None:
    model, x = layers(), torch.empty(32, 64, device="meta")
    forward = rl.explain(model, x, on="h200-sxm")
    assert forward.flops == 2 * (2 * 32 * 64 * 256) + 12 * 32 * 256
    step = rl.explain(lambda: model(x).sum().backward(), on="h200-sxm")
    products = sum(item.flops for item in step.operators if item.call.name in ("aten::mm", "aten::addmm"))
    assert products == 5 * 2 * 32 * 64 * 256  # dx of the first layer is not needed
    assert step.coverage.unknown == ()
    assert step.prediction is not None
    assert float(step.prediction.time) == pytest.approx(sum(item.time for item in step.operators))
    assert float(step.prediction.floor) <= float(step.prediction.time)
    assert step.machine is not None
    assert step.machine.name == "h200-sxm"


def test_equal_calls_are_one_row() -> None:
    x = torch.ones(8, 8)
    explained = rl.explain(lambda: [torch.relu(x) for _ in range(5)], on="h200-sxm")
    (row,) = explained.rows()
    assert (row["operator"], row["calls"], row["flops"], row["bytes"]) == ("aten::relu", 5, 5 * 64, 5 * 2 * 4 * 64)
    assert row["bound"]
    assert len(explained.result) == 5
    assert explained.calls == 5


def test_operators_without_a_rule_are_named_with_their_share() -> None:
    explained = rl.explain(lambda: torch.linalg.svd(torch.ones(8, 8)), on="h200-sxm")
    (row,) = explained.coverage.unknown
    assert row.name == "aten::_linalg_svd"
    assert 0 < row.share < 1
    assert "not counted: aten::_linalg_svd x1, " in repr(explained)
    assert "no rule for aten::_linalg_svd" in repr(explained)


def test_it_prints_the_answer_first() -> None:
    explained = rl.explain(layers(), torch.empty(32, 64, device="meta"), on="h200-sxm")
    first = repr(explained).splitlines()[0]
    assert " us [" in first
    assert "on h200-sxm · roofline " in first
    assert len(repr(explained).splitlines()) < 8
    assert str(explained).splitlines()[1].split()[0] in ("addmm", "gelu")
    assert len(str(explained).splitlines()) == 1 + len(explained.operators)


def test_without_a_machine_there_are_counts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ridgeline.prediction.explain.default", lambda: None)
    explained = rl.explain(torch.relu, torch.ones(8))
    assert explained.machine is None
    assert "time_us" not in explained.rows()[0]
    assert repr(explained).startswith("1 operator call: 8 FLOP · 64 B")


def test_a_function_that_does_nothing_is_said_to() -> None:
    assert "no operator of this function does work" in repr(rl.explain(lambda: 3, on="h200-sxm"))


def test_a_machine_without_a_peak_leaves_the_counts() -> None:
    bare = rl.Machine("bare")
    explained = rl.explain(torch.relu, torch.ones(8), on=bare)
    assert explained.flops == 8
    assert explained.prediction is None
    assert "no times on bare: " in repr(explained)


def test_the_program_can_be_predicted_elsewhere() -> None:
    explained = rl.explain(layers(), torch.empty(32, 64, device="meta"), on="h200-sxm")
    assert rl.predict(explained.program, "a100").time > 0
    assert explained.prediction is not None
    again = rl.predict(explained.program, "h200-sxm").time
    assert again == pytest.approx(explained.prediction.time, rel=1e-12)  # the same times, added in another order


def test_tf32_follows_torchs_setting() -> None:
    a = torch.ones(64, 64)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        fast = rl.explain(torch.mm, a, a, on="h200-sxm").operators[0].counted.work
        torch.set_float32_matmul_precision("highest")
        exact = rl.explain(torch.mm, a, a, on="h200-sxm").operators[0].counted.work
    finally:
        torch.set_float32_matmul_precision(before)
    assert fast is not None
    assert exact is not None
    assert (fast.dtype, exact.dtype) == ("tf32", "fp32")
