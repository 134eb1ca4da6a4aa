"""Cliffs: sizes nearby at which the time jumps are named, with the reason."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.prediction.answer import Answer, answer
from ridgeline.prediction.predict import predict
from ridgeline.programs.ops import OPS


def asked(name: str, machine: str, **values: Any) -> Answer:
    return answer(OPS[name], values, rl.machine(machine))


def test_a_size_off_the_alignment_is_told_to_pad() -> None:
    made = asked("gemm", "h200-sxm", m=4096, n=4095, k=4096)
    (note,) = [text for text in made.prediction.remarks if text.startswith("alignment")]
    assert note.startswith("alignment: n=4096 takes ")
    assert note.endswith("less; pad n")
    assert note in made.rows()[0]["notes"]
    padded = predict(OPS["gemm"](m=4096, n=4096, k=4096), rl.machine("h200-sxm")).time
    assert padded < made.prediction.time


@pytest.mark.parametrize("machine", ["h200-sxm", "l4"])
def test_sizes_that_help_only_together_are_told_to_pad_together(machine: str) -> None:
    """Rows need no padding, so only the two others are named; one of these alone leaves the slow kernel."""
    made = asked("gemm", machine, m=4095, n=4095, k=4095)
    (note,) = [text for text in made.prediction.remarks if text.startswith("alignment")]
    assert note.startswith("alignment: n=4096 and k=4096 take ")
    assert note.endswith("less; pad n and k")


def test_a_size_beyond_a_switch_is_not_called_aligned() -> None:
    """From 15 values of a channel and image on, several blocks share a channel, whether these are aligned or not."""
    made = asked("batchnorm_backward", "h200-sxm", batch=512, channels=15, pixels=12, dtype="bf16", layout="nhwc")
    assert any(text.startswith("kernel switch: pixels=16 takes ") for text in made.prediction.remarks)
    assert not [text for text in made.prediction.remarks if text.startswith("alignment")]


def test_what_is_less_work_is_no_neighbour() -> None:
    """A larger stride leaves out pixels: it takes less because it does less, and no case can be padded to it."""
    made = asked("conv2d", "h200-sxm", batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, stride=1, padding=1)
    assert not [text for text in made.prediction.remarks if "stride=" in text]
    assert float(
        predict(OPS["conv2d"](batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, stride=64, padding=1), "h200-sxm").time
    ) < float(made.prediction.time)


@pytest.mark.parametrize("groups", [64, 128, 256])
def test_more_groups_are_less_work_and_no_kernel_switch(groups: int) -> None:
    """Also where no more groups divide the channels: every channel is one."""
    sizes = {"batch": 8, "c_in": 256, "c_out": 256, "h": 28, "w": 28, "kernel": 3, "stride": 1, "padding": 1}
    made = asked("conv2d", "h200-sxm", **sizes, groups=groups, dtype="bf16")
    assert not [text for text in made.prediction.remarks if "groups=" in text]


def test_a_switch_that_timings_do_not_reach_is_called_extrapolated() -> None:
    sizes = {"batch": 8, "c_in": 512, "c_out": 512, "h": 28, "w": 28, "kernel": 3, "stride": 1, "padding": 1}
    made = asked("conv2d", "h200-sxm", **sizes, groups=128, dtype="bf16")
    assert float(made.prediction.distance) > 1.5
    notes = [text for text in made.prediction.remarks if text.startswith("kernel switch")]
    assert notes
    assert all(text.endswith("extrapolated from timings of this machine") for text in notes)


@pytest.mark.parametrize("machine", ["h200-sxm", "b200-sxm", "xeon-8480plus"])
def test_an_aligned_size_has_nothing_to_pad(machine: str) -> None:
    made = asked("gemm", machine, m=4096, n=4096, k=4096, dtype="bf16")
    assert not [text for text in made.prediction.remarks if text.startswith("alignment")]


def test_a_switch_is_named_only_with_timings_of_the_machine() -> None:
    """Every neighbour that is named does take less though larger, or more though smaller."""
    named = 0
    for op, cols in product(
        ("sort", "topk", "cumsum", "sum_rows", "softmax"), (64, 256, 1024, 4160, 8192, 16384, 131072)
    ):
        values = {"rows": 64, "cols": cols, "dtype": "fp32", **({"k": 8} if op == "topk" else {})}
        made = asked(op, "h200-sxm", **values)
        for note in (text for text in made.prediction.remarks if text.startswith("kernel switch")):
            name, size = note.split()[2].split("=")
            other = predict(OPS[op](**{**values, name: int(size)}), rl.machine("h200-sxm")).time
            assert (other > made.prediction.time) == (int(size) < values[name])
            named += 1
        there = asked(op, "b200-sxm", **values)
        assert not [text for text in there.prediction.remarks if text.startswith("kernel switch")]
    assert named


def test_an_interval_that_begins_below_the_measured_floor_says_so() -> None:
    made = asked("gemm", "h200-sxm", m=8192, n=8192, k=8192)
    below = made.prediction.low < made.prediction.floor
    assert below == any("begins below the floor" in text for text in made.prediction.remarks)
    assert made.prediction.low >= made.bound.stated_floor


def narrow(machine: str, k: Any, backend: str | None = None, weights: str = "int8") -> Any:
    work = OPS["linear"](batch=2, in_features=k, out_features=3072, dtype="bf16", weights=weights)
    return predict(work, rl.machine(machine), backend=backend)


@pytest.mark.parametrize("machine", ["a100-sxm-80gb", "b200-sxm", "l4", "mi300x"])
@pytest.mark.parametrize("weights", ["int8", "int8_g64", "int4_g128"])
def test_a_lent_kernel_of_narrow_weights_never_takes_less_for_a_longer_k(machine: str, weights: str) -> None:
    """The kernel splits k where parts are alike; that says nothing of another library, and of this one k could be padded."""
    times = narrow(machine, np.arange(128.0, 20_000.0, 128.0), "triton", weights).time
    assert np.all(times[1:] >= times[:-1] * (1 - 1e-9))


@pytest.mark.parametrize("backend", [None, "triton"])
def test_a_longer_k_that_is_split_more_often_is_named(backend: str | None) -> None:
    short, longer = narrow("h200-sxm", 11008, backend), narrow("h200-sxm", 11264, backend)
    assert longer.time < 0.7 * short.time
    assert short.low < 1.01 * longer.time
    assert any(text.startswith("kernel switch: in_features=11264 takes ") for text in short.remarks)


def test_a_zero_point_does_not_change_how_k_is_split() -> None:
    k = np.array([4096.0, 4352.0, 11264.0, 14336.0])
    for plain in ("int4_g32", "int4_g128"):
        with_zero, without = (narrow("h200-sxm", k, "triton", name).time for name in (f"{plain}z", plain))
        assert with_zero == pytest.approx(without, rel=0.05)
