"""The simple predictor, and the warning about an efficiency that tuned kernels do not have."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.prediction.simple import efficiency_warning, predict_matmul
from ridgeline.programs import ops
from strategies import law


def test_signature_and_defaults() -> None:
    defaults = {name: param.default for name, param in inspect.signature(rl.predict_matmul).parameters.items()}
    assert list(defaults) == ["M", "N", "K", "dtype_bytes", "peak_tflops", "hbm_tbps", "realistic_eff"]
    assert [*defaults.values()][3:] == [2, 989, 3.35, 0.78]


@pytest.mark.parametrize(
    ("shape", "ai", "bound", "microseconds"),
    [
        ((8192, 28672, 8192), 3584, "compute", 4988.6),
        ((4096, 4096, 128), 120.47, "HBM", 13.644),
        ((1, 28672, 8192), 0.99984, "HBM", 179.81),
        ((128, 128, 128), 42.667, "overhead", 0.037622),
    ],
)
def test_reference_shapes(shape: tuple[int, int, int], ai: float, bound: str, microseconds: float) -> None:
    """2 M N K flops; 989 TFLOP/s and 3.35 TB/s at 78 %; by hand: 98304 B / (3.35e12 x 0.78) = 0.0376 us."""
    assert predict_matmul(*shape) == (pytest.approx(ai, rel=1e-4), bound, pytest.approx(microseconds, rel=1e-4))


sizes = st.integers(1, 1 << 17)


@given(m=sizes, n=sizes, k=sizes, efficiency=st.floats(0.05, 1))
@law(60)
def test_it_is_the_prediction_of_a_two_number_machine(m: int, n: int, k: int, efficiency: float) -> None:
    simple = predict_matmul(m, n, k, realistic_eff=efficiency)
    full = rl.predict(ops.gemm(m, n, k, dtype="fp16"), rl.two_number(989e12, 3.35e12), efficiency=efficiency)
    assert (simple.ai, simple.time_us) == pytest.approx((full.intensity, full.time * 1e6))
    assert (simple.bound == "overhead") == (simple.time_us < 8)


def test_arrays() -> None:
    together = predict_matmul(np.array([1, 8192]), 28672, 8192)
    assert list(together.bound) == ["HBM", "compute"]
    np.testing.assert_allclose(together.time_us, [predict_matmul(m, 28672, 8192).time_us for m in (1, 8192)])
    shares = predict_matmul(8192, 28672, 8192, realistic_eff=np.array([0.65, 0.78])).time_us
    np.testing.assert_allclose(
        shares, [predict_matmul(8192, 28672, 8192, realistic_eff=x).time_us for x in (0.65, 0.78)]
    )


@pytest.mark.parametrize(
    ("given_", "words"),
    [({"M": 0}, "M must be"), ({"realistic_eff": 1.2}, r"realistic_eff must lie in \(0, 1\], got 1.2"), ({"hbm_tbps": -1}, "hbm_tbps must be"), ({"M": []}, "M must be a positive, finite number, got no value"), ({"realistic_eff": [0.7, float("nan")]}, "realistic_eff must lie"), ({"M": "a"}, "M must be a number or an array of numbers, got 'a'"), ({"M": [1, 2], "N": [1, 2, 3]}, r"shapes that go together, got M \(2,\), N \(3,\)")],
)  # fmt: skip
def test_impossible_input(given_: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        predict_matmul(**{"M": 8, "N": 8, "K": 8, **given_})


@pytest.mark.parametrize("efficiency", [0.65, 0.78, 0.85, None])
def test_no_warning_within_the_range_of_tuned_kernels(efficiency: float | None) -> None:
    assert efficiency_warning(efficiency) == ""
    assert rl.predict(ops.gemm(8, 8, 8), "h200-sxm", efficiency=efficiency).warnings == ()


@pytest.mark.parametrize("efficiency", [0.3, 0.6499, 0.86, 1.0])
def test_a_warning_outside_of_it(efficiency: float) -> None:
    (note,) = rl.predict(ops.gemm(8, 8, 8), "h200-sxm", efficiency=efficiency).warnings
    assert note.startswith(f"efficiency {efficiency:g} is outside 0.65 to 0.85")
