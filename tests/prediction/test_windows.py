"""Attention with a sliding window: a causal kernel that skips the keys the window cuts."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import attention

SIZES = {"batch": 2, "heads": 16, "kv_heads": 4, "seq_q": 8192, "seq_kv": 8192, "head_dim": 128}


@pytest.mark.parametrize("op", ["attention", "attention_backward"])
@pytest.mark.parametrize("machine", ["h200-sxm", "a100-sxm-80gb", "l40s", "xeon-8480plus"])
def test_a_longer_window_takes_no_less_and_one_that_cuts_nothing_takes_what_the_causal_kernel_does(
    machine: str, op: str
) -> None:
    windows = np.array([128.0, 1024.0, 4096.0, 8000.0, 8192.0, 20000.0])
    made = getattr(rl.ops, op)(**SIZES, causal=True, window=windows)
    time = rl.predict(made, machine).time
    causal = rl.predict(getattr(rl.ops, op)(**SIZES, causal=True), machine)
    assert np.all(np.diff(time) >= 0)
    assert np.all(time[-2:] == pytest.approx(float(causal.time)))
    assert np.all(time <= causal.high)
    if machine != "xeon-8480plus":
        assert time[0] < 0.2 * causal.time


def test_a_single_query_reads_its_window_alone() -> None:
    step = {**SIZES, "seq_q": 1}
    windowed = rl.predict(rl.ops.attention(**step, causal=True, window=1024), "h200-sxm")
    shorter = rl.predict(rl.ops.attention(**{**step, "seq_kv": 1024}), "h200-sxm")
    assert float(windowed.time) == pytest.approx(float(shorter.time), rel=0.05)
    assert windowed.expected[0].label == "calibrated"


def test_the_default_path_is_transferred_from_the_causal_kernel_and_triton_was_timed() -> None:
    made = rl.ops.attention(**SIZES, causal=True, window=1024)
    default, triton = rl.predict(made, "h200-sxm"), rl.predict(made, "h200-sxm", backend="triton")
    causal = rl.predict(rl.ops.attention(**SIZES, causal=True), "h200-sxm")
    assert (default.expected[0].label, triton.expected[0].label) == ("transferred", "calibrated")
    assert float(default.high / default.low) > 1.3 * float(causal.high / causal.low)


@pytest.mark.parametrize(("queries", "keys", "window"), [(5, 5, 2), (3, 9, 4), (7, 7, 7), (1, 8, 3), (4, 6, 50)])
def test_pairs_are_those_that_a_loop_counts(queries: int, keys: int, window: int) -> None:
    pairs = sum(key <= row < key + window for row in range(keys - queries, keys) for key in range(keys))
    assert attention.visible_pairs(queries, keys, 1.0, window) == pairs


def test_gradients_say_where_they_turn_compute_bound_with_all_sizes_given() -> None:
    from ridgeline.prediction.answer import answer
    from ridgeline.programs.ops import OPS

    values = {"batch": 4, "heads": 16, "seq_q": 1024, "seq_kv": 1024, "head_dim": 64, "causal": True}
    made = answer(OPS["attention_backward"], values, rl.machine("h200-sxm"))
    assert float(made.prediction.time) > 0
