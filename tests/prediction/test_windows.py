"""Attention with a sliding window: a causal kernel that skips the keys the window cuts."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.families import attention
from ridgeline.prediction.answer import answer
from ridgeline.prediction.basis import AS_CAUSAL
from ridgeline.programs.ops import OPS

SIZES = {"batch": 2, "heads": 16, "kv_heads": 4, "seq_q": 8192, "seq_kv": 8192, "head_dim": 128}


@pytest.mark.parametrize("op", ["attention", "attention_backward"])
@pytest.mark.parametrize("machine", ["h200-sxm", "a100-sxm-80gb", "l40s", "xeon-8480plus"])
def test_a_longer_window_takes_no_less_and_one_that_cuts_nothing_takes_what_the_causal_kernel_does(
    machine: str, op: str
) -> None:
    """Where timings of this machine say that a window is slower than none, the interval reaches down to these."""
    windows = np.array([128.0, 1024.0, 4096.0, 8000.0, 8192.0, 20000.0])
    made = rl.predict(getattr(rl.ops, op)(**SIZES, causal=True, window=windows), machine)
    causal = rl.predict(getattr(rl.ops, op)(**SIZES, causal=True), machine)
    falls = np.maximum(-np.diff(made.time), 0.0)
    assert np.all(falls <= (made.high - made.low)[:-1] * (machine == "h200-sxm"))
    assert made.time[-1] == pytest.approx(float(causal.time))
    assert made.time[0] < (1.0 if machine == "xeon-8480plus" else 0.3) * causal.time + 1e-12


def test_a_single_query_reads_its_window_alone() -> None:
    step = {**SIZES, "seq_q": 1}
    windowed = rl.predict(rl.ops.attention(**step, causal=True, window=1024), "h200-sxm")
    shorter = rl.predict(rl.ops.attention(**{**step, "seq_kv": 1024}), "h200-sxm")
    assert float(windowed.time) == pytest.approx(float(shorter.time), rel=0.05)
    assert windowed.expected[0].label == "calibrated"


def test_the_default_path_is_transferred_from_the_kernel_that_was_timed_and_other_libraries_from_their_causal_ones() -> (
    None
):
    made = rl.ops.attention(**SIZES, causal=True, window=1024)
    default, triton, cudnn = (rl.predict(made, "h200-sxm", backend=backend) for backend in (None, "triton", "cudnn"))
    causal = rl.predict(rl.ops.attention(**SIZES, causal=True), "h200-sxm", backend="cudnn")
    assert [each.expected[0].label for each in (default, triton, cudnn)] == ["transferred", "calibrated", "transferred"]
    assert float(default.high / default.low) > 1.3 * float(triton.high / triton.low)
    assert float(cudnn.high / cudnn.low) > 1.3 * float(causal.high / causal.low)
    assert cudnn.time < default.time


@pytest.mark.parametrize("formats", [{"dtype": "fp8_e4m3"}, {"kv": "fp8_e4m3"}, {"dtype": "fp16", "kv": "int8"}])
def test_a_format_that_windows_were_not_timed_in_takes_their_timings_and_not_those_of_a_causal_kernel(
    formats: dict[str, str],
) -> None:
    """The causal kernel of cuDNN is up to twice as fast; fp8 has twice the peak."""
    wide, narrow = (rl.predict(rl.ops.attention(**SIZES, causal=True, window=1024, **words), "h200-sxm") for words in ({}, formats))  # fmt: skip
    assert [kernel.selected.key.op for kernel in narrow.expected[0].kernels] == ["window"]
    assert narrow.expected[0].label == "transferred"
    assert str(narrow.expected[0].confidence).startswith("transferred from attention.window.")
    assert narrow.time > (0.45 if "fp8" in formats.get("dtype", "") else 0.9) * float(wide.time)


@pytest.mark.parametrize(("window", "formats"), [(8064, {}), (8064, {"dtype": "fp8_e4m3"}), (1024, {})])
def test_a_window_that_takes_longer_than_none_names_the_switch_of_kernels(window: int, formats: dict[str, str]) -> None:
    values = {**SIZES, "causal": True, **formats}
    cut, none = (
        answer(OPS["attention"], {**values, **words}, rl.machine("h200-sxm")) for words in ({"window": window}, {})
    )
    notes = [text for text in cut.prediction.remarks if text.startswith("kernel switch: a window of ")]
    assert len(notes) == (window > 1024)
    assert all(f"{window} costs " in note and "more than none, which takes " in note for note in notes)
    assert not notes or cut.prediction.low <= none.prediction.time
    assert not any("window" in text for text in none.prediction.remarks)


# Microseconds by FlexAttention of PyTorch 2.11 on an H200 in bf16, median of nine calls with L2 flushed (torch.profiler, 2026-11-18):
# batch, heads, key heads, queries, keys, head size, window.
FLEX = {
    (1, 32, 8, 8192, 8192, 128, 1024): 405.3,
    (4, 32, 8, 4096, 4096, 128, 512): 509.3,
    (1, 16, 16, 8192, 8192, 64, 2048): 201.0,
    (8, 8, 4, 2048, 2048, 256, 1024): 432.7,
    (2, 32, 32, 4096, 4096, 128, 2048): 578.0,
    (1, 32, 8, 2048, 16384, 128, 4096): 347.9,
    (16, 12, 12, 1024, 1024, 64, 256): 88.7,
    (2, 40, 8, 3000, 3000, 128, 777): 365.3,
    (1, 64, 8, 8192, 8192, 128, 4096): 2039.9,
    (4, 16, 2, 6000, 6000, 64, 128): 187.1,
    (32, 16, 16, 512, 512, 128, 128): 151.6,
}


def test_windows_by_flex_attention_lie_inside_the_interval_of_the_default_path() -> None:
    names = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "window")
    inside = []
    for sizes, measured in FLEX.items():
        made = rl.predict(rl.ops.attention(**dict(zip(names, sizes, strict=True)), causal=True), "h200-sxm")
        inside.append(float(made.low) <= measured * 1e-6 <= float(made.high))
    assert sum(inside) >= 7  # of 11; of all 72, 82 %


@pytest.mark.parametrize(("queries", "keys", "window"), [(5, 5, 2), (3, 9, 4), (7, 7, 7), (1, 8, 3), (4, 6, 50)])
def test_pairs_are_those_that_a_loop_counts(queries: int, keys: int, window: int) -> None:
    pairs = sum(key <= row < key + window for row in range(keys - queries, keys) for key in range(keys))
    assert attention.visible_pairs(queries, keys, 1.0, window) == pairs


def test_gradients_say_where_they_turn_compute_bound_with_all_sizes_given() -> None:
    values = {"batch": 4, "heads": 16, "seq_q": 1024, "seq_kv": 1024, "head_dim": 64, "causal": True}
    made = answer(OPS["attention_backward"], values, rl.machine("h200-sxm"))
    assert float(made.prediction.time) > 0


LAYER = {"batch": 8, "heads": 32, "kv_heads": 8, "seq_q": 4096, "head_dim": 128, "causal": True}


@pytest.mark.parametrize("machine", ["b200-sxm", "gb200", "rtx-4090", "l40s"])
def test_a_window_of_a_quarter_of_the_keys_is_a_kernel_of_its_own_on_gpus_that_borrow_it(machine: str) -> None:
    """Triton compiles for the instructions of each GPU; on an H200 its kernel takes 0.94 of the causal one at this window."""
    windowed, causal = (rl.predict(rl.ops.attention(**LAYER, **more), machine) for more in ({"window": 1024}, {}))
    assert 0.5 < windowed.time / causal.time < 0.95
    assert "causal one" not in str(windowed.expected[0].confidence)


def test_a_long_window_says_whose_time_it_has() -> None:
    """Where skipping keys is expected to take longer than not skipping them, the time is that of the causal kernel, and said to be."""
    windowed, causal = (rl.predict(rl.ops.attention(**LAYER, **more), "b200-sxm") for more in ({"window": 3000}, {}))
    assert float(windowed.time) == pytest.approx(float(causal.time))
    assert AS_CAUSAL in str(windowed.expected[0].confidence)


def test_few_queries_on_the_default_path_say_what_is_not_known_of_them() -> None:
    """FlexAttention has another kernel for them; by Triton's name the kernel is the timed one."""
    few, many = (dict(SIZES, seq_q=queries, seq_kv=8192, causal=True, window=1024) for queries in (64, 128))
    said = [str(rl.predict(rl.ops.attention(**sizes), "h200-sxm").expected[0].confidence) for sizes in (few, many)]
    assert ["FlexAttention" in text for text in said] == [True, False]
    named = rl.predict(rl.ops.attention(**few), "h200-sxm", backend="triton").expected[0].confidence
    assert "FlexAttention" not in str(named)
