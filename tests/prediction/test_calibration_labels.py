"""Labels: calibrated only for what was timed on the machine, by the tables of timings themselves."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.errors import MissingFigure
from ridgeline.core.timeline import Call, Tensor
from ridgeline.core.work import Program, Step
from ridgeline.prediction.kernel_steps import ran_with
from ridgeline.prediction.predict import predict
from ridgeline.prediction.together import evaluate_together
from ridgeline.programs.aten import Settings, count
from ridgeline.programs.ops import OPS

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
SAME_KERNELS = {"linear": "gemm", "attention": "attention", "syrk": "gemm", "symm": "gemm", "trmm": "gemm"}
FORMATS = ("bf16", "fp16", "fp32", "fp64", "tf32", "fp8_e4m3", "int8")


@cache
def timed() -> set[tuple[str, str, str, str]]:
    """Op, dtype, weights without their groups, backend of everything that was timed on the H200."""
    rows = set()
    for path in DATA.glob("h200*calibration.csv.gz"):
        with gzip.open(path, "rt") as file:
            for row in csv.DictReader(file):
                weights = (row.get("weights") or "").partition("_g")[0]
                rows.add((row["op"], row["dtype"], weights, row.get("backend") or ""))
    return rows | single_calls()


def single_calls() -> set[tuple[str, str, str, str]]:
    """Of calls that were timed one at a time: attention by its op, others by the name of their kernel."""
    rows = set()
    with gzip.open(DATA.parent / "programs" / "h200-single-calls.jsonl.gz", "rt") as file:
        for row in map(json.loads, file):
            name = row.get("name", "").partition("::")[2]
            if name.startswith("_scaled_dot_product"):
                rows.add(("attention_backward" if "backward" in name else "attention", row["args"][0]["dtype"], "", ""))
            elif name in ("clone", "mul", "div") and row["args"][0]["dtype"] == "fp16":
                rows |= {(kernel, "fp16", "", "") for kernel in kernels_of(row)}
    return rows


def kernels_of(row: dict[str, Any]) -> set[str]:
    args = tuple(
        Tensor(tuple(arg["shape"]), arg["dtype"], tuple(arg["strides"])) if isinstance(arg, dict) else arg
        for arg in row["args"]
    )
    outputs = tuple(Tensor(tuple(out["shape"]), out["dtype"], tuple(out["strides"])) for out in row["outputs"])
    work = count(Call(row["name"], args, outputs), Settings(device="cuda", leaf=True)).work
    return {kernel.op or kernel.family for kernel in work.kernels} if work is not None else set()


@pytest.mark.parametrize("backend", ["", "flash2", "cudnn", "efficient", "triton", "rowwise"])
def test_what_is_called_calibrated_was_timed(backend: str) -> None:
    machine, labels = rl.machine("h200-sxm"), set()
    for op in OPS.values():
        sizes = {key: 256 for key, param in op.params.items() if param.required and param.kind == "Size"}
        sizes |= {"topk": 2} if op.name == "moe" else {}
        for dtype in FORMATS:
            for weights in ("", "int4_g128", "int8", "fp8_e4m3"):
                if weights and "weights" not in op.params:
                    continue
                words = {"dtype": dtype, **({"weights": weights} if weights and weights != dtype else {})}
                try:
                    label = predict(op(**sizes, **words), machine, backend=backend or None).expected[0].label
                except MissingFigure:
                    continue
                labels.add(label)
                if label == "calibrated":
                    names = {op.name, SAME_KERNELS.get(op.name, op.name), "linear" if op.name == "gemm" else op.name}
                    names |= {kernel.op or kernel.family for kernel in op(**sizes, **words).kernels}
                    stored = words.get("weights", "").partition("_g")[0]
                    of = (
                        "" if op.family == "conv" and backend == "cudnn" else backend
                    )  # whose convolutions the default path has
                    assert any((name, dtype, stored, of) in timed() for name in names), (op.name, words)
    assert labels == {"calibrated", "transferred", "uncalibrated"}


def test_another_format_or_library_is_transferred() -> None:
    machine = rl.machine("h200-sxm")
    moe = {"tokens": 64, "experts": 64, "topk": 8, "hidden": 4096, "inter": 2048}
    assert predict(OPS["moe"](**moe), machine).expected[0].label == "calibrated"
    fp8 = predict(OPS["moe"](**moe, dtype="fp8_e4m3"), machine)
    assert fp8.expected[0].label == "transferred"
    assert "no timings of PyTorch with fp8 weights, trtllm-1.3.0rc20 used: transferred from moe.fp8@" in str(
        fp8.expected[0].confidence
    )
    unknown = predict(ran_with(OPS["gemm"](m=64, n=64, k=64), "nobody-1.0"), machine)
    assert unknown.expected[0].label == "transferred"
    assert predict(OPS["gemm"](m=64, n=64, k=64), rl.machine("b200-sxm")).expected[0].label == "transferred"


def test_a_transferred_interval_is_wider_than_the_one_it_comes_from() -> None:
    machine = rl.machine("h200-sxm")
    moe = {"tokens": 64, "experts": 64, "topk": 8, "hidden": 4096, "inter": 2048}
    own, fp8 = predict(OPS["moe"](**moe), machine), predict(OPS["moe"](**moe, dtype="fp8_e4m3"), machine)
    assert fp8.high / fp8.time > own.high / own.time


@pytest.mark.parametrize(
    ("op", "sizes", "words", "other"),
    [
        ("moe", {"tokens": 512, "experts": 8, "topk": 2, "hidden": 4096, "inter": 14336}, {"dtype": "bf16"}, {"dtype": "fp16"}),
        ("gemm", {"m": 4096, "n": 4096, "k": 4096}, {}, {"backend": "flash2"}),
    ],
)  # fmt: skip
def test_the_same_kernels_take_the_same_time_whatever_they_are_asked_for_by(
    op: str, sizes: dict[str, Any], words: dict[str, str], other: dict[str, str]
) -> None:
    """The other format of 16 bits, and a library that lacks the op."""
    first, second = (
        predict(OPS[op](**sizes, **{name: word for name, word in each.items() if name != "backend"}), rl.machine("h200-sxm"), backend=each.get("backend"))
        for each in (words, other)
    )  # fmt: skip
    assert second.time == pytest.approx(float(first.time), rel=1e-3)
    assert [each.expected[0].label for each in (first, second)] == ["calibrated", "transferred"]
    assert second.high / second.low > first.high / first.low


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("gemm", {"m": 4096, "n": 4096, "k": 4096}),
        ("conv2d", {"batch": 8, "c_in": 64, "h": 28, "w": 28, "c_out": 64, "kernel": 3}),
        ("layernorm", {"rows": 4096, "cols": 4096}),
        ("softmax", {"rows": 4096, "cols": 4096}),
        ("add", {"n": 1e7}),
        ("relu", {"n": 1e7}),
    ],
)  # fmt: skip
def test_a_result_in_a_format_that_was_not_timed_is_transferred(op: str, sizes: dict[str, float]) -> None:
    machine = rl.machine("h200-sxm")
    usual, same, narrow = (predict(OPS[op](**sizes, **words), machine) for words in ({}, {"out_dtype": "bf16"}, {"out_dtype": "fp8"}))  # fmt: skip
    assert [each.expected[0].label for each in (usual, same, narrow)] == ["calibrated", "calibrated", "transferred"]
    assert narrow.time <= usual.time
    assert narrow.high / narrow.low > usual.high / usual.low
    assert predict(OPS["gemm"](64, 64, 64, dtype="fp8", out_dtype="bf16"), machine).expected[0].label == "calibrated"
    casts = {("fp32", "bf16"): "calibrated", ("bf16", "fp32"): "calibrated", ("bf16", "fp8"): "calibrated"}
    casts |= {("fp16", "bf16"): "calibrated", ("fp32", "fp8"): "transferred", ("bf16", "fp64"): "transferred"}
    for (dtype, out), said in casts.items():
        cast = OPS["cast"](n=1e7, dtype=dtype, out_dtype=out)
        assert predict(cast, machine).expected[0].label == said, (dtype, out)
    assert predict(OPS["cast"](n=1e7, dtype="fp64"), machine).expected[0].label == "transferred", "to bf16"


@pytest.mark.parametrize("dtype", ["fp8", "int8", "fp64"])
def test_a_layer_with_a_bias_is_calibrated_only_where_such_layers_were_timed(dtype: str) -> None:
    layer = {"batch": 4096, "in_features": 4096, "out_features": 4096, "bias": True}
    timed, other = (predict(OPS["linear"](**layer, **words), rl.machine("h200-sxm")).expected[0] for words in ({}, {"dtype": dtype}))  # fmt: skip
    assert (timed.label, other.label) == ("calibrated", "transferred")
    assert [kernel.selected.key.op for kernel in timed.kernels] == ["biased"]


def test_weights_in_groups_are_padded_to_entire_groups_and_the_note_says_so() -> None:
    odd, even = (rl.ops.linear(16, in_features, 14336, weights="int4_g128") for in_features in (4097, 4224))
    assert odd.kernels == even.kernels
    assert any("in_features is padded to 4224" in note for note in odd.notes)
    assert not even.notes


DECODE = {"batch": 8, "heads": 32, "seq_q": 1, "seq_kv": 8192, "kv_heads": 8, "head_dim": 128}


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        (None, "PyTorch has no fp8_e4m3 KV cache, vllm-0.24.0 used: transferred from decode.full.bf16-fp8_e4m3@vllm-0.24.0"),
        ("flash2", "FlashAttention-2 has no fp8_e4m3 KV cache, vllm-0.24.0 used: transferred"),
        ("vllm", "calibrated (decode.full.bf16-fp8_e4m3@vllm-0.24.0"),
        ("trtllm", "calibrated (decode.full.bf16-fp8_e4m3@trtllm-1.3.0rc20"),
    ],
)  # fmt: skip
def test_a_cache_that_a_library_has_no_kernel_for_takes_that_of_one_which_was_timed_and_says_so(
    backend: str | None, says: str
) -> None:
    """FlashAttention-2 with half the bytes was 1.6 times too fast: engines unpack the cache."""
    machine = rl.machine("h200-sxm")
    engine = rl.predict(rl.ops.attention(**DECODE, kv="fp8"), machine, backend="vllm")
    made = rl.predict(rl.ops.attention(**DECODE, kv="fp8"), machine, backend=backend)
    assert says in str(made.expected[0].confidence)
    assert backend == "trtllm" or made.time == pytest.approx(float(engine.time), rel=1e-9)
    for other in ({"kv": "int8"}, {"kv": "fp8_e5m2"}, {"kv": "fp8", "dtype": "fp16"}):
        assert rl.predict(rl.ops.attention(**DECODE, **other), machine, backend=backend).time == pytest.approx(float(made.time), rel=0.1)  # fmt: skip


def test_a_prompt_over_a_cache_that_a_library_has_no_kernel_for_says_so() -> None:
    made = rl.predict(rl.ops.attention(**{**DECODE, "seq_q": 2048}, kv="fp8"), "h200-sxm", backend="flash2")
    assert str(made.expected[0].confidence).startswith(
        "FlashAttention-2 has no fp8_e4m3 KV cache, its kernel for a wider one used"
    )


def test_a_library_without_a_version_gets_the_timings_of_the_version_that_was_timed() -> None:
    step, machine = rl.ops.gemm(m=64, n=4096, k=4096, dtype="bf16"), rl.machine("h200-sxm")
    named, plain = (predict(step, machine, backend=backend) for backend in ("vllm-0.24.0", "vllm"))
    assert plain.time == named.time
    assert str(plain.expected[0].label) == "calibrated"
    assert plain.expected[0].basis.startswith("calibrated (gemm.bf16@vllm-0.24.0,")


def test_steps_that_are_evaluated_together_keep_their_labels() -> None:
    """Products that store their result otherwise were not timed, whatever step comes first."""
    usual, wider = (rl.ops.gemm(m=512, n=4096, k=4096, out_dtype=name) for name in ("bf16", "fp32"))
    for works in ((usual, wider), (wider, usual)):
        together = rl.predict(Program(tuple(Step(str(place), work) for place, work in enumerate(works))), "h200-sxm")
        evaluate_together(together.expected)
        alone = [rl.predict(work, "h200-sxm").expected[0] for work in works]
        assert [step.label for step in together.expected] == [step.label for step in alone]
        assert [float(step.high) for step in together.expected] == [float(step.high) for step in alone]


@pytest.mark.parametrize("machine", ["h200-sxm", "h100-sxm", "a100-sxm-80gb"])
@pytest.mark.parametrize("op", ["gemm", "bmm"])
def test_a_product_that_is_added_to_the_old_result_reads_it_and_was_not_timed(machine: str, op: str) -> None:
    """Of few k the old result is half of the traffic; case by case in a table as alone."""
    sizes = {"m": 8192, "n": 8192, "k": 256} | ({"batch": 1} if op == "bmm" else {})
    plain, added = (rl.predict(OPS[op](**sizes, beta=beta), machine) for beta in (False, True))
    moved = 8192 * 8192 * 2 / float(rl.machine(machine).main.bandwidth.stated or 0.0)
    assert float(added.time) > float(plain.time) + 0.3 * moved
    assert added.expected[0].label == "transferred"
    both = rl.predict(OPS[op](**sizes, beta=np.array([0.0, 1.0])), machine)
    assert both.time == pytest.approx([float(plain.time), float(added.time)], rel=1e-12)
    if op == "gemm":
        assert list(both.expected[0].label) == [plain.expected[0].label, "transferred"]


def test_addmm_with_a_matrix_is_the_product_with_beta() -> None:
    shapes = ((8192, 8192), (8192, 256), (256, 8192))
    made = count(Call("aten::addmm", tuple(Tensor(shape, "bf16") for shape in shapes))).work
    assert made is not None
    whole = rl.predict(OPS["gemm"](m=8192, n=8192, k=256, beta=True), "h200-sxm")
    assert float(rl.predict(made, "h200-sxm").time) == pytest.approx(float(whole.time))
    assert rl.predict(made, "h200-sxm").expected[0].label == "transferred"


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("gemm", {"m": 512, "n": 4096, "k": 4096, "traffic": "no_reuse"}),
        ("gemm", {"m": 512, "n": 4096, "k": 4096, "traffic": "tiled", "tile": 64}),
        ("rmsnorm", {"rows": 4096, "cols": 4096, "passes": 3}),
    ],
)
def test_traffic_that_no_timed_kernel_has_is_not_calibrated(op: str, sizes: dict[str, Any]) -> None:
    """The time is the floor of what is counted, of which the timings say nothing."""
    made = rl.predict(OPS[op](**sizes), "h200-sxm")
    assert float(made.time) == float(made.floor)
    assert made.expected[0].label == "transferred"
    assert str(made.expected[0].confidence).startswith("transferred: more is counted than the timed kernels move")
    several = {**sizes, "rows" if "rows" in sizes else "m": np.array([2048.0, 4096.0])}
    assert set(rl.predict(OPS[op](**several), "h200-sxm").expected[0].label) == {"transferred"}
    usual = {name: size for name, size in sizes.items() if name not in ("traffic", "tile", "passes")}
    assert rl.predict(OPS[op](**usual), "h200-sxm").expected[0].label == "calibrated"


MOE = {"tokens": 512, "experts": 64, "topk": 6, "hidden": 2048, "inter": 1408}


@pytest.mark.parametrize(
    ("op", "sizes", "untimed"),
    [
        ("gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "fp8_e4m3"}, {"dtype": "fp8_e5m2"}),
        ("moe", MOE, {"active": 20}),
        ("moe", MOE, {"active": np.array([20, 64])}),
        ("moe", MOE, {"routing": "uniform"}),
        ("stream_triad", {"n": 1e8, "dtype": "fp32"}, {"write_allocate": True}),
    ],
)
def test_what_was_timed_in_another_way_is_transferred(op: str, sizes: dict[str, Any], untimed: dict[str, Any]) -> None:
    """All of these were called calibrated: the timings are of e4m3, of experts used alike, of writes that read nothing."""
    machine = rl.machine("h200-sxm")
    usual, unusual = (predict(OPS[op](**each), machine).expected[0] for each in (sizes, sizes | untimed))
    assert usual.label == "calibrated"
    assert np.all(np.asarray(unusual.label) == "transferred")
    assert np.all(unusual.high / unusual.time > usual.high / usual.time)
