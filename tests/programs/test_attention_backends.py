"""The kernel that PyTorch runs attention with: by GPU, format, head, mask and layout, as its source decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeline.machines.files import names as catalog_names
from ridgeline.machines.load import load
from ridgeline.programs.attention_backends import PATHS, Attention, backend

SHAPE = (2, 8, 128, 64)
PLAIN = Attention(SHAPE, SHAPE, SHAPE, "bf16")


def headed(size: int, dtype: str = "bf16") -> Attention:
    shape = (*SHAPE[:3], size)
    return Attention(shape, shape, shape, dtype)


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        (PLAIN, {"hopper": "cudnn", "blackwell": "cudnn", "ampere": "flash", "ada": "flash", "blackwell-ultra": "flash",
                 "cdna3": "flash", "volta": "math", "turing": "math", "cdna": "math"}),
        (replace(PLAIN, dtype="fp16"), {"hopper": "cudnn", "ampere": "flash", "volta": "efficient", "pascal": "efficient"}),
        (replace(PLAIN, dtype="fp32"), {"hopper": "efficient", "ampere": "efficient", "volta": "efficient", "cdna3": "efficient"}),
        (replace(PLAIN, dtype="fp64"), {"hopper": "math", "ampere": "math", "cdna3": "math"}),
        (replace(PLAIN, masked=True), {"hopper": "cudnn", "ampere": "efficient", "ada": "efficient", "cdna3": "efficient"}),
        (replace(PLAIN, masked=True, mask_trained=True), {"hopper": "efficient", "ampere": "efficient"}),
        (replace(PLAIN, adjacent=False), {"hopper": "math", "ampere": "math"}),
        (headed(256), {"hopper": "cudnn", "blackwell": "flash", "ampere": "flash"}),
        (headed(264), {"hopper": "efficient", "ampere": "efficient"}),
        (headed(60), {"hopper": "flash", "ampere": "flash"}),
        (headed(60, "fp32"), {"hopper": "efficient"}),
        (headed(62, "fp32"), {"hopper": "math"}),
        (replace(headed(208), trained=True), {"hopper": "cudnn", "ampere": "flash", "ada": "efficient"}),
        (replace(PLAIN, k=(2, 2, 128, 64), v=(2, 2, 128, 64)), {"hopper": "math", "ampere": "math"}),
        (replace(PLAIN, k=(2, 2, 128, 64), v=(2, 2, 128, 64), grouped=True), {"hopper": "cudnn", "ampere": "flash"}),
        (replace(PLAIN, q=(2, 8, 1, 64), causal=True), {"hopper": "cudnn", "ampere": "efficient"}),
    ],
)  # fmt: skip
def test_the_backend_follows_from_the_gpu_and_the_tensors(attention: Attention, expected: dict[str, str]) -> None:
    assert {name: backend(attention, name) for name in expected} == expected


def test_a_backend_that_is_switched_off_leaves_the_next_one() -> None:
    assert backend(PLAIN, "hopper", frozenset(("flash", "efficient"))) == "flash"
    assert backend(PLAIN, "hopper", frozenset()) == "math"


def test_an_architecture_without_a_rule_is_not_guessed() -> None:
    assert backend(PLAIN, "tpu-v5e") is None


def test_every_gpu_of_nvidia_in_the_catalog_has_a_rule() -> None:
    machines = [load(name) for name in catalog_names()]
    assert {item.architecture for item in machines if (item.vendor, item.kind) == ("NVIDIA", "gpu")} <= set(PATHS)
