"""Every command of the predicting side answers its question in the first two lines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from commands import answer, run

import ridgeline as rl
from ridgeline.app.cli import COMMANDS
from ridgeline.core.machine import two_number
from ridgeline.prediction.answer import Answer
from ridgeline.prediction.answer import answer as ask
from ridgeline.prediction.answer_line import answer_line
from ridgeline.prediction.next_move import next_move
from ridgeline.programs import ops
from ridgeline.render.table import Column, Table, microseconds

H200, H100 = rl.machine("h200-sxm"), rl.machine("h100-sxm")


def lines(*words: str) -> list[str]:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def study(name: str, machine: rl.Machine = H200, **values: object) -> Answer:
    return ask(ops.find(name), values, machine)


# -- the answer line ----------------------------------------------------------------------------------------


def test_the_answer_line_has_time_interval_bound_and_shares() -> None:
    made = rl.predict(ops.gemm(m=1, n=8192, k=8192), two_number(1e15, 1e12))
    time, low, high = (float(value) * 1e6 for value in (made.time, made.low, made.high))
    share = float(made.floor / made.time)
    start = f"{time:.0f} us [{low:.0f}-{high:.0f}] · memory-bound · {share:.0%}".replace("%", " %")
    assert answer_line(made) == f"{start} of roofline · MFU <0.1 % · MBU {share:.0%}".replace("%", " %").replace(
        "  %", " %"
    )


def test_shares_of_peak_and_bandwidth_are_over_the_expected_time() -> None:
    row = answer("predict", "gemm", "m=16", "n=8192", "k=8192", "--on", "h100-sxm", "--ceilings", "stated")
    assert row["mfu"] == pytest.approx(row["flops"] / (row["time_us"] * 1e-6) / 989.4e12)
    assert row["mbu"] == pytest.approx(row["bytes"] / (row["time_us"] * 1e-6) / 3.35e12)
    assert row["share_of_roofline"] == row["efficiency"]
    copy = answer("predict", "copy", "n=1e8", "--on", "h100-sxm")
    assert copy["mfu"] is None
    assert answer("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm", "--resident", "l2")["mbu"] is None


def test_confidence_is_printed_only_where_it_is_low() -> None:
    assert "confidence" not in lines("predict", "gemm", "m=1", "n=4096", "k=4096", "--on", "h200-sxm")[0]
    near = [study("gemm", H100, m=m, n=4096, k=4096).lines[0] for m in range(200, 500, 5)]
    assert any(re.search(r"balanced \(compute \d+ %, memory \d+ %\)", line) for line in near)
    # every bound that is given without a confidence is at least 95 % sure
    for m in range(200, 500, 5):
        case = study("gemm", H100, m=m, n=4096, k=4096)
        if "balanced" not in case.lines[0] and "confidence" not in case.lines[0]:
            assert float(case.bound.confidence) >= 0.95


def test_one_case_has_an_answer_what_was_asked_and_ten_lines_at_most() -> None:
    for words in (["gemm", "m=16", "n=8192", "k=8192"], ["gelu", "n=1e6", "--took", "20us"], ["copy", "n=1e8"]):
        shown = lines("predict", *words, "--on", "h200-sxm")
        assert "% of roofline" in shown[0]
        assert f"{words[0]} {words[1].split('=')[0]}=" in "".join(shown[1:3])
        assert len(shown[shown.index("") + 1 :]) <= 10


@pytest.mark.parametrize("m", [1, 64, 256, 4096])
def test_one_ridge_per_answer(m: int) -> None:
    """The card, the levels and the crossover are made of one bandwidth, that of the kernel's access mix."""
    case = study("gemm", m=m, n=4096, k=4096)
    ridge = float(np.asarray(case.bound.ridge))
    main = case.levels[-1]
    assert main.ridge == pytest.approx(ridge)
    assert main.time == pytest.approx(float(case.bound.memory_time))
    text = run("predict", "gemm", f"m={m}", "n=4096", "k=4096", "--on", "h200-sxm", "--levels").stdout
    (card,) = re.findall(r"ridge (\d+) FLOP/B", text)
    assert re.search(rf"^hbm .* {card} ", text, re.M)


# -- sweeps and cases ---------------------------------------------------------------------------------------


def test_a_sweep_is_summarised_first_and_starts_with_its_input() -> None:
    shown = lines("predict", "gemm", "m=1..4096:x4", "n=4096", "k=4096", "--on", "h200-sxm")
    assert re.fullmatch(
        r"7 cases: \S+ us to \S+ us; 4 memory-bound, 3 compute-bound; compute-bound at m >= \d+", shown[0]
    )
    assert shown[1].startswith("gemm m=1..4096 n=4096 k=4096 bf16 on h200-sxm, measured ceilings, ridge ")
    assert shown[3].split()[0] == "m"
    for head in ("time us", "80 % interval us", "% of roofline", "AI FLOP/B"):
        assert head in shown[3]


def test_the_input_of_a_collective_is_its_first_column() -> None:
    shown = lines("predict", "all_reduce", "bytes=1e6,1e9", "ranks=8", "--on", "h100-sxm")
    assert shown[3].split()[0] == "bytes"
    assert [row.split()[0] for row in shown[4:6]] == ["1,000,000", "1,000,000,000"]


def test_cases_show_their_names_and_shapes(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("name,op,m,n,k,bytes,ranks\nq_proj,gemm,16,4096,4096,,\nreduce,all_reduce,,,,1000000,8\n")
    shown = lines("predict", "--cases", str(file), "--on", "h200-sxm")
    assert re.match(r"2 cases: \S+ us to \S+ us, \S+ us in total; 2 memory-bound", shown[0])
    assert re.match(r"q_proj +gemm +m=16 n=4096 k=4096 +bf16", shown[4])
    assert re.match(r"reduce +all_reduce +bytes=1000000 ranks=8", shown[5])


def test_times_of_a_column_share_a_unit_and_keep_their_data() -> None:
    rows = [{"a": 2e-6, "b": 1500.0}, {"a": 3e-4, "b": 20.0}, {"a": None, "b": None}]
    table = Table("", (Column("a", "first", "s"), microseconds("b", "second")), rows)
    assert table.heads == ["first us", "second ms"]
    assert table.cells() == [["2", "1.5"], ["300", "0.02"], ["-", "-"]]
    assert table.records == rows


# -- what to do next ----------------------------------------------------------------------------------------


def test_the_next_move_is_of_this_case_or_absent() -> None:
    thin = next_move(study("gemm", m=16, n=8192, k=8192)) or ""
    assert re.match(r"m >= 19\d makes it compute-bound: ", thin)
    assert "fp8 weights: " in thin
    elementwise = next_move(study("gelu", n=1e8)) or ""
    assert elementwise.startswith("fuse with the kernel that reads its result: saves 400 MB of HBM traffic")
    assert (next_move(study("sum", n=1e8)) or "").startswith("fuse with the kernel that writes its input")
    small = next_move(study("gelu", n=1e4)) or ""
    assert "CUDA graph" in small
    on_cpu = study("gelu", rl.machine("epyc-9654"), n=100, dtype="fp32")
    assert "graph" not in (next_move(on_cpu) or "")
    vector = next_move(study("gemm", m=4096, n=4096, k=4096, dtype="fp32")) or ""
    assert vector.startswith("use the tensor cores: ")
    tensor = next_move(study("gemm", m=4096, n=4096, k=4096)) or ""
    assert "tensor cores" not in tensor
    assert next_move(study("gemm", m=4096, n=4096, k=4096, dtype="fp8")) is None


def test_a_priced_move_is_what_the_prediction_of_the_change_says() -> None:
    move = next_move(study("gemm", m=4096, n=4096, k=4096, dtype="fp32")) or ""
    after = rl.predict(ops.gemm(m=4096, n=4096, k=4096, dtype="tf32"), H200)
    assert f": {float(after.time) * 1e6:.0f} us (" in move


@pytest.mark.parametrize("batch", [16, 4096])
def test_quantized_weights_are_weighed_against_those_that_need_no_unpacking(batch: int) -> None:
    """It proposed fp8 arithmetic, for which no kernel unpacks int4, and a larger batch, where bf16 weights take a third or less."""
    layer = {"batch": batch, "in_features": 4096, "out_features": 14336}
    move = next_move(study("linear", **layer, weights="int4_g128")) or ""
    wide = rl.predict(ops.linear(**layer), H200)
    packed = ops.linear(**layer, weights="int4_g128")
    now, other = (rl.predict(packed, H200, backend=name).time for name in (None, "triton"))
    first, then = move.split("; ")
    assert re.fullmatch(rf"bf16 weights: .* \({now / wide.time:.3g}x faster\)", first)
    assert re.fullmatch(rf"--backend triton: .* \({now / other:.3g}x faster\)", then)
    assert "triton" not in (
        next_move(ask(ops.find("linear"), {**layer, "weights": "int4_g128"}, H200, backend="triton")) or ""
    )


# -- the other commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("compare h100-sxm h200-sxm --op", r"h200-sxm is 1\.4\dx faster than h100-sxm on this op: \S+ us vs \S+ us, both memory-bound"),
        ("compare h100-sxm h200-sxm", r"highest bf16 peak: .*; highest bandwidth: h200-sxm, 4\.61 TB/s"),
        ("critical-batch 4096 4096 --ridge 152 --dtype fp16", r"compute-bound at batch >= 165"),
        ("critical-batch 256 256 --ridge 152", r"never compute-bound: AI limit 128 FLOP/B < ridge 152 FLOP/B"),
        ("precisions all_reduce bytes=1MiB ranks=8 --on h100-sxm", r"as fast in every format: \S+ us"),
        ("precisions gemm m=4096 n=4096 k=4096 --on h200-sxm", r"fastest in fp8_e4m3: \S+ us, \S+x faster than bf16 .*"),
        (
            "precisions moe tokens=8 experts=8 topk=2 hidden=256 inter=256 --on h200-sxm",
            r"fastest in bf16: \S+ us, as fast as fp16 \(\S+ us\); without fp64 and fp32, in which no kernels were timed",
        ),
        ("whatif gemm m=16 n=8192 k=8192 --on h200-sxm --do quantize=fp8", r"largest gain: quantize to fp8, \S+ us -> \S+ us \(\S+x\)"),
        ("whatif gemm m=16 n=8192 k=8192 --on h200-sxm --do tensor", r"no gain: tensor units: .*already"),
        ("machines h200-sxm", r"h200-sxm: NVIDIA H200 SXM 141GB, gpu, hopper, 2024, 700 W"),
        ("machines", r"\d+ machines: .*"),
        ("ops", r"\d+ ops; .*"),
        ("glossary MFU", r"mfu +Model flops utilization: .*"),
        ("table tiling --on h200-sxm", r"compute-bound with 64 x 64 tiles or larger: GEMM 4096\^3 fp32 on h200-sxm"),
        ("table common --on h200-sxm", r"6 memory-bound, 1 overhead-bound, 1 compute-bound: .*"),
    ],
)  # fmt: skip
def test_the_first_line_answers(words: str, first: str) -> None:
    op = ["gemm m=1 n=8192 k=8192"] if words.endswith("--op") else []
    assert re.fullmatch(first, lines(*words.split(), *op)[0])


def test_eval_says_error_and_coverage_first(tmp_path: Path) -> None:
    file = tmp_path / "cases.csv"
    file.write_text("op,m,n,k,time_us\n" + "".join(f"gemm,{m},4096,4096,{m / 20 + 12}\n" for m in (16, 256, 4096)))
    shown = lines("eval", str(file), "--on", "h200-sxm")
    assert re.fullmatch(r"median error \S+ %, P90 \S+ % over 3 cases; \d+ % inside the 80 % interval", shown[0])
    assert shown[1].startswith("on h200-sxm; best baseline (")


def test_summaries_fit_their_line() -> None:
    shown = lines("--help")
    assert max(map(len, shown)) <= 80
    commands = {line.split()[0]: line for line in shown if line.split() and line.split()[0] in COMMANDS}
    assert set(commands) == set(COMMANDS)
    assert not [line for line in commands.values() if line.endswith("...")]


# -- flags that would have no effect ------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--plot", "--verbose"])
@pytest.mark.parametrize("target", [["--json"], ["--out", "never.csv"]])
def test_flags_of_the_terminal_are_refused_elsewhere(flag: str, target: list[str]) -> None:
    result = run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm", flag, *target)
    assert result.exit_code == 2
    assert flag in result.stderr
    assert not Path("never.csv").exists()


def test_pictures_show_the_op_that_was_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "picture.svg"
    layer = ("softmax", "rows=4096", "cols=4096")
    assert run("precisions", *layer, "--on", "h200-sxm", "--out", str(out)).exit_code == 0
    assert "softmax" in out.read_text(encoding="utf-8")
    assert run("compare", "h100-sxm", "h200-sxm", "--op", " ".join(layer), "--out", str(out)).exit_code == 0
    assert "softmax" in out.read_text(encoding="utf-8")


def test_the_floor_of_other_ops_than_convolutions_is_the_roofline_time() -> None:
    """Rounding made the two differ, and a softmax had "one product per output and channel"."""
    printed = lines("predict", "softmax", "rows=123533", "cols=2248", "--dtype", "fp16", "--on", "h200-sxm")
    assert any(re.fullmatch(r"floor +259 us, the roofline time", line) for line in printed)
