"""Libraries: where each of them runs, and what a machine says that it does not run on."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import ridgeline as rl
from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.machines import libraries

ATTENTION = rl.ops.attention(batch=4, heads=16, seq_q=2048, head_dim=128)


@pytest.mark.parametrize(
    ("name", "backend", "says"),
    [
        ("t4", "flash2", "FlashAttention-2 needs NVIDIA GPUs from ampere or AMD GPUs from cdna2, and this is NVIDIA turing"),
        ("v100-sxm2-32gb", "flash2", "this is NVIDIA volta; take efficient, "),
        ("mi300x", "cudnn", "cuDNN attention needs NVIDIA GPUs from ampere, and this is AMD cdna3; take efficient, flash2, "),
        ("mi300x", "trtllm-1.3.0rc20", "TensorRT-LLM needs NVIDIA GPUs from ampere"),
        ("apple-m4-max", "cudnn", "leave the backend out for the default path"),
        ("tpu-v5e", "flash2", "this is a tpu of Google"),
        ("xeon-8480plus", "triton", "this is a cpu of Intel"),
        ("gaudi3", "cudnn", "this is an accelerator of Intel"),
        ("v100-sxm2-32gb", "sglang", "SGLang needs NVIDIA GPUs from turing, and this is NVIDIA volta; take efficient, torch, triton, vllm, or"),
        ("p100-pcie-16gb", "vllm", "vLLM needs NVIDIA GPUs from volta, and this is NVIDIA pascal; take efficient, torch, or"),
    ],
)  # fmt: skip
def test_a_library_that_does_not_run_on_a_machine_is_refused_with_those_that_do(
    name: str, backend: str, says: str
) -> None:
    with pytest.raises(InputError, match=f"backend {backend} does not run on {name}: ") as refused:
        rl.predict(ATTENTION, name, backend=backend)
    assert says in str(refused.value)


def test_the_command_line_says_so_too() -> None:
    words = ["predict", "attention", "batch=4", "heads=16", "seq_q=2048", "head_dim=128", "--dtype", "fp16"]
    result = CliRunner().invoke(main, [*words, "--on", "t4", "--backend", "flash2"])
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("name", "backend"),
    [("a100-sxm-80gb", "flash2"), ("mi300x", "flash2"), ("rtx-4090", "cudnn"), ("t4", "efficient"), ("t4", "torch"), ("b200-sxm", "trtllm"), ("mi300x", "vllm"), ("apple-m4-max", "vllm"), ("t4", "sglang"), ("h200-sxm", "vllm-0.9.1")],
)  # fmt: skip
def test_one_that_does_is_taken(name: str, backend: str) -> None:
    libraries.check(backend, rl.machine(name))


@pytest.mark.parametrize(("name", "first"), [("h200-sxm", "cudnn"), ("b200-sxm", "cudnn"), ("mi300x", "efficient")])
def test_one_that_nobody_timed_is_refused_where_it_is_asked_for(name: str, first: str) -> None:
    """Python took any name and predicted the default path, which the command line refused."""
    with pytest.raises(InputError, match=f"unknown backend of {name} 'nonsense': there is {first}, "):
        rl.predict(ATTENTION, name, backend="nonsense")
    with pytest.raises(InputError, match="unknown backend"):
        rl.predict_cases(rl.ops.gemm, name, {"m": 8, "n": 8, "k": 8}, ("time",), backend="nonsense")
    ran = rl.predict_cases(rl.ops.gemm, name, {"m": 8, "n": 8, "k": 8}, ("time", "confidence"), ran_on="nonsense")
    assert "no timings of backend nonsense, default path used" in str(ran["confidence"])


def test_an_unknown_one_is_answered_with_those_that_run_there() -> None:
    """A V100 was offered cuDNN, FlashAttention-2 and TensorRT-LLM; a CPU was told `there are none`."""
    with pytest.raises(InputError, match=r"unknown backend of v100-sxm2-32gb 'nonsense'") as refused:
        rl.predict(ATTENTION, "v100-sxm2-32gb", backend="nonsense")
    offered = str(refused.value).partition("there is ")[2].rstrip(".").split(", ")
    assert {"efficient", "torch", "vllm"} <= set(offered)
    assert not {"cudnn", "flash2", "trtllm", "sglang"} & set(offered)
    with pytest.raises(InputError, match=r"there are none\. Leave the backend out for the default path\."):
        rl.predict(ATTENTION, "epyc-9654", backend="torch")


def test_the_default_path_has_other_names() -> None:
    """PyTorch's convolutions are those of cuDNN, and the default path is PyTorch: there were "no timings" of either."""
    conv = rl.ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, padding=1)
    for work, backend in ((conv, "cudnn"), (conv, "torch"), (rl.ops.gelu(n=10**6), "torch")):
        named, usual = (rl.predict(work, "h200-sxm", backend=backend) for backend in (backend, None))
        assert (named.time, named.low, named.high) == (usual.time, usual.low, usual.high)
        assert named.expected[0].confidence == usual.expected[0].confidence
        assert named.expected[0].label == "calibrated"
    gelu = rl.predict(rl.ops.gelu(n=10**6), "h200-sxm", backend="cudnn").expected[0]
    assert "no timings of backend cudnn" in str(gelu.confidence)


@pytest.mark.parametrize("backend", ["flash2", "cudnn"])
def test_a_machine_with_timings_is_lent_a_library_that_it_lacks_before_its_own_default_path(backend: str) -> None:
    """An A100 was timed with serving engines alone."""
    made = rl.predict(ATTENTION, "a100-sxm-80gb", backend=backend).expected[0]
    assert [(kernel.selected.key.backend, kernel.selected.fitted.borrowed) for kernel in made.kernels] == [
        (backend, True)
    ]
    assert str(made.confidence).startswith("transferred from other machines")


def test_a_format_that_a_library_was_not_timed_in_takes_its_own_other_format_of_16_bits() -> None:
    made = rl.predict(rl.ops.gemm(4096, 4096, 4096, dtype="fp16"), "h200-sxm", backend="vllm").expected[0]
    assert str(made.confidence).startswith("transferred from gemm.bf16@vllm-0.24.0 (")


@pytest.mark.parametrize("name", ["v100-sxm2-16gb", "t4", "p100-sxm2-16gb", "rtx-4090"])
def test_cudnn_means_the_default_path_of_a_convolution_on_every_nvidia_gpu(name: str) -> None:
    """GPUs before Ampere refused it, because cuDNN has no attention for them."""
    conv = rl.ops.conv2d(batch=8, c_in=64, c_out=64, h=28, w=28, dtype="fp16")
    assert rl.predict(conv, name, backend="cudnn").time == rl.predict(conv, name).time
