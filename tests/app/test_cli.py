"""The command line as a user meets it: whole commands, their JSON, their tables, and what bad input gets."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ridgeline.app.cli import COMMANDS, main
from ridgeline.app.cli.present import json_text
from ridgeline.app.cli.progress import signals_interrupt
from ridgeline.machines import write as save
from ridgeline.machines.load import load
from ridgeline.prediction import predict as prediction
from ridgeline.prediction import table as cases
from ridgeline.programs.ops import OPS

ROOT = Path(__file__).parents[2]

FIELDS = [
    "op",
    "dtype",
    "machine",
    "shape",
    "flops",
    "bytes",
    "intensity",
    "ridge",
    "bound",
    "limiter",
    "attainable",
    "floor_us",
    "time_us",
    "efficiency",
    "ceilings",
    "confidence",
]


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# -- predict --------------------------------------------------------------------------------------------------


def test_one_prediction_has_the_promised_fields() -> None:
    row = answer("predict", "gemm", "m=4096", "n=14336", "k=4096", "--on", "h200-sxm", "--ceilings", "stated")
    assert set(FIELDS) <= set(row)
    assert row["flops"] == 2 * 4096 * 14336 * 4096
    assert row["bytes"] == 2 * (4096 * 4096 + 4096 * 14336 + 4096 * 14336)
    assert row["shape"] == {"m": 4096, "n": 14336, "k": 4096}
    assert (row["bound"], row["limiter"], row["ceilings"]) == ("compute", "tensor.bf16", "stated")
    assert row["floor_us"] == pytest.approx(row["flops"] / 989.4e12 * 1e6)
    assert row["time_us"] > row["floor_us"]
    assert row["efficiency"] == pytest.approx(row["floor_us"] / row["time_us"])


def test_measured_ceilings_are_the_default_where_there_are_any() -> None:
    """S0-46: the H200 was measured, the H100 was not; every answer says which it used."""
    assert answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")["ceilings"] == "measured"
    assert answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h100-sxm")["ceilings"] == "stated"


def test_a_sweep_is_a_list_and_several_axes_a_grid() -> None:
    rows = answer("predict", "gemm", "m=1..8192", "n=4096", "k=1024,4096", "--on", "h100-sxm")
    assert len(rows) == 14 * 2
    assert [row["shape"]["m"] for row in rows[::2]] == [2**power for power in range(14)]
    assert {row["shape"]["k"] for row in rows} == {1024, 4096}


def test_table_of_one_prediction_reads_well() -> None:
    text = run("predict", "axpy", "n=1e8", "--dtype", "fp32", "--on", "a100-sxm-80gb").output
    assert "memory, limited by hbm" in text
    assert "0.1667 FLOP/B at hbm" in text
    assert "1.74 % of the vector.fp32 peak" in text
    advice = next(line for line in text.splitlines() if line.startswith("next"))
    assert "fuse" in advice
    assert "tensor units" not in advice


def test_explain_lists_every_addend_ceiling_and_source() -> None:
    text = run("predict", "gemm", "m=128", "n=256", "k=512", "--dtype", "fp32", "--on", "h100-sxm", "--explain").output
    for part in (
        "2 m n k",
        "m k x 4 B",
        "k n x 4 B",
        "m n x 4 B",
        "a fused multiply-add counts as two",
        "whitepaper",
        "datasheet",
        "tiles and waves",
        "expected time",
        "in four cases of five between",
    ):
        assert part in text
    for op, formula in [("add n=100", "1 n"), ("dot n=100", "n - 1")]:
        assert formula in run("predict", *op.split(), "--on", "h100-sxm", "--explain").output


def test_levels_show_one_row_each_and_say_what_is_not_known() -> None:
    text = run(
        "predict",
        "gemm",
        "m=4096",
        "n=4096",
        "k=4096",
        "tile=128",
        "--on",
        "a100-sxm-80gb",
        "--dtype",
        "fp32",
        "--levels",
    ).output
    assert re.search(r"^l2 .*31\.51", text, re.M)
    assert re.search(r"^hbm .*682\.7", text, re.M)
    assert "never a sum" in text


@pytest.mark.parametrize(("kind", "floor"), [("stated", 312e12), ("derived", 108 * 2048 * 1.41e9)])
def test_ceilings_can_be_chosen(kind: str, floor: float) -> None:
    row = answer("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "a100-sxm-80gb", "--ceilings", kind)
    assert row["ceilings"] == kind
    assert row["floor_us"] == pytest.approx(2 * 8192**3 / floor * 1e6)


def test_measured_ceilings_that_do_not_exist_are_refused() -> None:
    result = run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "a100-sxm-80gb", "--ceilings", "measured")
    assert result.exit_code == 2
    assert "no measured figure" in result.output
    assert "stated and derived" in result.output


def test_two_number_machine() -> None:
    row = answer(
        "predict",
        "gemm",
        "m=1",
        "n=28672",
        "k=8192",
        "--dtype",
        "fp16",
        "--peak",
        "989 TFLOP/s",
        "--bandwidth",
        "3.35 TB/s",
        "--efficiency",
        "0.78",
    )
    assert row["time_us"] == pytest.approx(179.81, rel=1e-4)
    assert row["bound"] == "memory"


def test_storage_formats() -> None:
    row = answer(
        "predict",
        "linear",
        "batch=1",
        "in_features=8192",
        "out_features=28672",
        "--weights",
        "int4_g128",
        "--on",
        "h100-sxm",
    )
    assert row["intensity"] == pytest.approx(3.88, rel=1e-3)
    assert row["dtype"] == "bf16"


def test_a_measured_time_is_placed() -> None:
    row = answer("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "h200-sxm", "--took", "1.4132 ms")
    assert row["achieved"]["rate"] == pytest.approx(778e12, rel=1e-3)
    assert row["achieved"]["verdict"] == "compute"
    text = run("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "h200-sxm", "--took", "0.5 ms").output
    assert "Above the roof" in text


def test_regime_change_is_named() -> None:
    row = answer(
        "predict",
        "gemm",
        "m=1",
        "n=28672",
        "k=8192",
        "--dtype",
        "fp16",
        "--peak",
        "989 TFLOP/s",
        "--bandwidth",
        "3.35 TB/s",
    )
    assert row["turns_compute_bound_at"] == {"m": 310}
    never = answer("predict", "linear", "batch=1", "in_features=256", "out_features=256", "--on", "h100-sxm")
    assert never["turns_compute_bound_at"] == {"batch": None}


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html", ".json", ".csv", ".md"])
def test_out_writes_every_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"answer{suffix}"
    assert run("predict", "gemm", "m=1..64", "n=4096", "k=4096", "--on", "h200-sxm", "--out", str(path)).exit_code == 0
    assert path.stat().st_size > 200
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    if suffix == ".csv":
        assert len(list(csv.DictReader(path.open()))) == 7


def test_plot_in_the_terminal() -> None:
    text = run("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm", "--plot").output
    assert "memory-bound" in text
    assert "compute-bound" in text
    assert "arithmetic intensity" in text


@pytest.mark.parametrize(
    "machine",
    ["tpu-v5e", "apple-m4-max", "epyc-9654", "mi300x", "v100-sxm2-32gb", "gaudi2", "trainium2", "t4", "b300-sxm"],
)
def test_every_kind_of_machine_answers(machine: str) -> None:
    dtype = {"apple-m4-max": "fp32", "v100-sxm2-32gb": "fp16", "t4": "fp16"}.get(machine, "bf16")
    for op in (
        ["gemm", "m=4096", "n=4096", "k=4096"],
        ["softmax", "rows=4096", "cols=4096"],
        ["attention", "batch=1", "heads=32", "seq_q=4096", "head_dim=128", "causal=yes"],
    ):
        row = answer("predict", *op, "--dtype", dtype, "--on", machine)
        assert 0 < row["floor_us"] <= row["time_us"]


# -- other commands -------------------------------------------------------------------------------------------


def test_machines_list_and_card() -> None:
    rows = answer("machines")
    assert len(rows) >= 60
    assert {"name", "vendor", "kind", "peak_bf16", "bandwidth"} <= set(rows[0])
    card = answer("machines", "h200")
    assert card["name"] == "h200-sxm"
    assert {"stated", "derived", "measured", "source"} <= set(card["peaks"]["tensor.bf16"])
    assert card["levels"][-1]["bandwidth"]["stated"] == 4.8e12
    assert {"name", "per_direction", "source"} <= set(card["links"][0])
    assert card["tdp"] == 700
    text = run("machines", "h200").output
    assert "tensor-sparse.fp8" in text
    assert "sources" in text


def test_machines_are_compared_by_one_kind_of_ceilings() -> None:
    """The H200 was measured, the H100 was not: both are judged by their datasheets, unless another kind is asked for."""
    rows = answer("compare", "h100-sxm", "h200-sxm", "--op", "gemm m=4096 n=4096 k=4096")
    assert rows[1]["compute_growth"] == pytest.approx(1.0)
    assert rows[1]["bandwidth_growth"] == pytest.approx(4.8 / 3.35)
    assert rows[1]["floor_us"] == pytest.approx(rows[0]["floor_us"])
    alone = answer("compare", "h200-sxm")[0]
    assert alone["peak"] < 989.4e12
    listed = {row["name"]: row for row in answer("machines")}
    assert (listed["h200-sxm"]["peak_bf16"], listed["h200-sxm"]["bandwidth"]) == (989.4e12, 4.8e12)


def test_ops_list_and_one() -> None:
    assert "attention" in run("ops").output
    text = run("ops", "conv2d").output
    assert "2 batch c_out ho wo (c_in/groups) kernel^2" in text
    assert answer("ops", "gemm")["parameters"][0] == {
        "name": "m",
        "kind": "Size",
        "choices": [],
        "required": True,
        "default": None,
    }


@pytest.mark.parametrize(("sizes", "batch"), [(("4096", "4096"), 165), (("768", "3072"), 202), (("256", "256"), None)])
def test_critical_batch(sizes: tuple[str, str], batch: int | None) -> None:
    row = answer("critical-batch", *sizes, "--ridge", "152", "--dtype", "fp16")
    assert row["critical_batch"] == batch
    assert row["never"] is (batch is None)
    if batch is None:
        assert "never" in run("critical-batch", *sizes, "--ridge", "152").output


def test_precisions() -> None:
    rows = {
        row["dtype"]: row
        for row in answer(
            "precisions", "linear", "batch=1", "in_features=4096", "out_features=4096", "--on", "a100-sxm-80gb"
        )
    }
    assert rows["int4"]["ridge"] == pytest.approx(612.1, rel=1e-3)
    assert list(rows) == ["fp64", "fp32", "tf32", "bf16", "fp16", "int8", "int4", "int1"]
    some = answer("precisions", "gemm", "m=64", "n=64", "k=64", "--on", "h100-sxm", "--dtypes", "fp8,bf16")
    assert [row["dtype"] for row in some] == ["fp8_e4m3", "bf16"]


def test_compare() -> None:
    rows = answer("compare", "a100-sxm-80gb", "h100-sxm", "b200", "--op", "gemm m=1 n=4096 k=4096")
    assert [row["gains"] for row in rows] == [None, "prefill", "decode, by a little"]
    assert rows[1]["speedup"] > 1
    left_out = run("compare", "h100-sxm", "t4").output
    assert "t4 left out" in left_out


@pytest.mark.parametrize("name", ["common", "blas", "typical", "batches", "peaks", "tiling", "regimes", "kernels"])
@pytest.mark.parametrize("machine", ["a100-sxm-80gb", "h200-sxm"])
def test_named_tables(name: str, machine: str) -> None:
    document = answer("table", name, "--on", machine)
    assert document["rows"]


@pytest.mark.parametrize("term", ["arithmetic intensity", "AI", "ridge", "ceiling", "bound"])
def test_glossary(term: str) -> None:
    assert len(answer("glossary", term)["rows"]) == 1


def test_help_names_the_origin_and_every_command_explains_itself() -> None:
    text = run("--help").output
    assert "Williams, Waterman" in text
    for name in COMMANDS:
        assert run(name, "--help").exit_code == 0


def test_chart_list_and_one(tmp_path: Path) -> None:
    assert "pyramid" in run("chart").output
    assert run("chart", "peaks", "--on", "a100-sxm-80gb", "--out", str(tmp_path / "peaks.svg")).exit_code == 0
    assert "memory-bound" in run("chart", "roofline", "--on", "h200").output


# -- bad input: one message, exit code 2, no traceback, nothing written -----------------------------------------

GEMM = ("gemm", "m=8", "n=8", "k=8")
BAD = [
    (("predict", "gem", "m=8", "--on", "h200"), ["unknown op 'gem'", "gemm"]),
    (("predict", *GEMM, "--on", "h20O"), ["unknown machine 'h20O'", "h20"]),
    (("predict", *GEMM, "--on", "h100"), ["fits several machines", "h100-sxm"]),
    (("predict", *GEMM, "--on", "h200", "--dtype", "bf17"), ["unknown dtype 'bf17'", "bf16"]),
    (("predict", *GEMM, "--on", "t4", "--dtype", "bf16"), ["t4 does no bf16", "fp16"]),
    (("predict", *GEMM, "--on", "h100-sxm", "--dtype", "int4"), ["does no int4", "--weights int4"]),
    (("predict", "gemm", "m=8", "n=8", "q=8", "--on", "h200"), ["unknown parameter of gemm 'q'"]),
    (("predict", "gemm", "m=8", "n=8", "--on", "h200"), ["gemm needs k"]),
    (("predict", "gemm", "m=8", "m=9", "n=8", "k=8", "--on", "h200"), ["m is given twice"]),
    (("predict", "gemm", "m", "n=8", "k=8", "--on", "h200"), ["not of the form name=value"]),
    (("predict", "gemm", "m=0", "n=8", "k=8", "--on", "h200"), ["m must be a whole number of at least 1, got 0"]),
    (("predict", "gemm", "m=-3", "n=8", "k=8", "--on", "h200"), ["at least 1, got -3"]),
    (("predict", "gemm", "m=2.5", "n=8", "k=8", "--on", "h200"), ["got 2.5"]),
    (("predict", "gemm", "m=nan", "n=8", "k=8", "--on", "h200"), ["'nan' is not a number"]),
    (("predict", "gemm", "m=inf", "n=8", "k=8", "--on", "h200"), ["'inf' is not a number"]),
    (("predict", "gemm", "m=1e300", "n=8", "k=8", "--on", "h200"), ["2^53"]),
    (("predict", "gemm", "m=2^9999", "n=8", "k=8", "--on", "h200"), ["too large"]),
    (("predict", "gemm", "m=8..1", "n=8", "k=8", "--on", "h200"), ["runs upwards"]),
    (("predict", "gemm", "m=1..1e15:1", "n=8", "k=8", "--on", "h200"), ["ten million is the most"]),
    (("predict", "gemm", "m=eight", "n=8", "k=8", "--on", "h200"), ["'eight' is not a number"]),
    (("predict", *GEMM), ["no machine", "--on"]),
    (("predict", *GEMM, "--peak", "1 TFLOP/s"), ["both --peak and --bandwidth"]),
    (("predict", *GEMM, "--peak", "1 TB/s", "--bandwidth", "1 TB/s"), ["is a bandwidth", "rate of work"]),
    (("predict", *GEMM, "--peak", "fast", "--bandwidth", "1 TB/s"), ["'fast' is not a quantity"]),
    (("predict", *GEMM, "--peak", "0 TFLOP/s", "--bandwidth", "1 TB/s"), ["peak must be a positive"]),
    (("predict", *GEMM, "--on", "h200", "--efficiency", "1.5"), ["efficiency must lie in (0, 1]"]),
    (("predict", *GEMM, "--on", "h200", "--launch", "8 GB"), ["is an amount of data"]),
    (("predict", *GEMM, "--on", "h200", "--resident", "l9"), ["unknown memory level of h200-sxm 'l9'"]),
    (("predict", *GEMM, "--on", "h200", "--engine", "tensor-sparse", "--dtype", "fp32"), ["no tensor-sparse.fp32"]),
    (("predict", *GEMM, "--on", "h200", "--kv", "fp8"), ["gemm has no kv"]),
    (("predict", *GEMM, "--on", "nowhere.toml"), ["cannot read the machine file nowhere.toml"]),
    (("predict", *GEMM, "--on", "h200", "--out", "answer.xyz"), ["answer.xyz"]),
    (("predict", *GEMM, "--on", "h200", "--out", "/nowhere/answer.svg"), ["/nowhere"]),
    (("predict", *GEMM, "--on", "h200", "--took", "-1 us"), ["--took must be a positive time"]),
    (("predict",), ["name an op"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "kv_heads=3", "--on", "h200"), ["kv_heads must divide heads"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "variant=fast", "--on", "h200"), ["unknown variant of attention 'fast'", "flash"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "causal=maybe", "--on", "h200"), ["causal must be yes or no"]),
    (("predict", "conv2d", "batch=1", "c_in=3", "c_out=8", "h=2", "w=2", "kernel=5", "padding=0", "--on", "h200"), ["does not fit"]),
    (("predict", "all_reduce", "bytes=1e6", "ranks=1", "--on", "h200"), ["at least 2 ranks"]),
    (("predict", "all_reduce", "bytes=1e6", "ranks=8", "--peak", "1 TFLOP/s", "--bandwidth", "1 TB/s"), ["no link"]),
    (("machines", "h2000"), ["unknown machine"]),
    (("ops", "gemn"), ["unknown op", "gemm"]),
    (("table", "nothing", "--on", "h200"), ["unknown table"]),
    (("chart", "nothing", "--on", "h200"), ["unknown chart"]),
    (("glossary", "nonsense"), ["unknown term"]),
    (("compare", "h200", "nothing"), ["unknown machine"]),
    (("critical-batch", "0", "5", "--on", "h200"), ["at least 1"]),
    (("critical-batch", "5", "5", "--ridge", "-1"), ["--ridge must be positive"]),
    (("precisions", "gemm", "m=1", "n=1", "k=1", "dtype=bf16", "--on", "h200"), ["sweeps the dtype itself"]),
    (("predikt",), ["unknown command 'predikt'", "predict"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "parts"), BAD, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_bad_input_gets_one_clear_message(
    words: tuple[str, ...], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr
    assert not result.stdout.strip()
    assert list(tmp_path.iterdir()) == []


def test_five_mistakes_in_a_machine_file_are_five_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'name = "bad"\ntitle = "x"\nvendor = "x"\nkind = "toaster"\ncolour = "red"\n[sources]\na = "b"\n[peak.vector]\nfp32 = { stated = "1 TB/s", source = "a" }\n[[level]]\nname = "hbm"\ncapacity = "lots"\nbandwidth = "-5 GB/s"\nsource = "a"\n'
    )
    result = run("predict", *GEMM, "--on", str(path))
    assert result.exit_code == 2
    assert "5 mistakes found" in result.stderr
    assert result.stderr.count("\n  - ") == 5


# -- cases ----------------------------------------------------------------------------------------------------

CASES = """op,dtype,m,n,k,rows,cols,weights,note
gemm,bf16,4096,4096,4096,,,,first
gemm,fp16,1,28672,8192,,,int4_g128,second
softmax,fp16,,,,2048,2048,,third
gemm,bf16,16,16,16,,,,fourth
"""


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_cases_in_and_out(suffix: str, tmp_path: Path) -> None:
    source, target = tmp_path / "cases.csv", tmp_path / f"out{suffix}"
    source.write_text(CASES)
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    assert result.exit_code == 0, result.output
    again = answer("predict", "--cases", str(target), "--on", "h200-sxm")
    assert [row["note"] for row in again] == ["first", "second", "third", "fourth"]
    one = answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")
    assert float(again[0]["time_us"]) == pytest.approx(one["time_us"])
    assert again[3]["bound"] == "overhead"
    assert {row["error"] for row in again} == {""}


def test_a_bad_row_names_row_and_column_and_the_others_come_out(tmp_path: Path) -> None:
    source, target = tmp_path / "cases.csv", tmp_path / "out.csv"
    source.write_text(
        CASES
        + "gemm,bf16,-4,8,8,,,,bad\nnorm,bf16,,,,4,4,,worse\ngemm,int4,8,8,8,,,,lacking\ngemm,bf16,8,,8,,,,missing\ngemm,bf16,8,x,8,,,,text\n"
    )
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    assert result.exit_code == 1
    rows = list(csv.DictReader(target.open()))
    assert [bool(row["error"]) for row in rows] == [False] * 4 + [True] * 5
    assert all(float(row["time_us"]) > 0 for row in rows[:4])
    expected = ["row 5, column m", "row 6, column op", "row 7", "row 8, column n", "row 9, column n"]
    assert all(part in row["error"] for part, row in zip(expected, rows[4:], strict=True))
    assert all(part in result.stderr for part in expected)
    assert rows[4]["time_us"] == ""


def test_a_column_that_a_result_would_hide_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text("op,m,n,k,time_us\ngemm,512,512,512,12.5\n")
    row = answer("predict", "--cases", str(source), "--on", "h200-sxm")[0]
    assert row["given_time_us"] == "12.5"
    assert row["time_us"] != 12.5


def test_machine_may_be_a_column(tmp_path: Path) -> None:
    source = tmp_path / "cases.jsonl"
    source.write_text(
        '{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "a100-sxm-80gb"}\n{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "h100-sxm"}\n'
    )
    rows = answer("predict", "--cases", str(source))
    assert rows[0]["time_us"] > rows[1]["time_us"]


UNUSABLE = [
    ("none.csv", None, "cannot read"),
    ("a.txt", "x", "not from '.txt'"),
    ("a.json", "{", "not valid json"),
    ("a.jsonl", "[1]", "list of objects"),
    ("a.parquet", "x", "not a parquet file"),
    ("b.csv", "op,m\ngemm,1,2,3\n", "more fields"),
    *((f"empty{suffix}", "", "holds no cases") for suffix in (".csv", ".json", ".jsonl")),
    ("header.csv", "op,m,n,k\n\n", "holds no cases"),
    ("list.json", "[]", "holds no cases"),
    ("c.csv", "op,m,m,n,k\ngemm,1,2,3,4\n", "has the column m more than once"),
    ("d.csv", "op,m,n,k,,\ngemm,1,2,3,,\n", "a column without a name more than once"),
    ("b.jsonl", '{"op": "gemm", "m": 1, "m": 2}\n', "line 1: 'm' stands twice"),
    ("e.csv", "op,m,n,k,Dtype\ngemm,1,2,3,fp8\n", "column 'Dtype', which nobody reads; it is spelt dtype"),
    ("f.csv", "op,m, n,k\ngemm,1,2,3\n", "column ' n', which nobody reads; it is spelt n"),
    ("c.jsonl", '{"op": "gemm", "m": 1}\n{"op": "gemm", "out-dtype": "fp8"}\n', "it is spelt out_dtype"),
    ("g.csv", "m,n,k\n1,2,3\n", "has no column op, which names the op of each case; it has 'm, n, k'\n"),
    ("h.csv", "op;m;n;k\ngemm;1;2;3\n", "it has 'op;m;n;k'; its cells look separated by ';'"),
    ("d.jsonl", '{"op": "gemm", "m": 1}\n\n{bad\n', "line 3 column 2: Expecting property name"),
    ("e.jsonl", "[" * 100_000, "not valid jsonl"),
    ("i.csv", f"op,n\nadd,{'1' * 200_000}\n", "line 2, cannot be read: field larger"),
    ("j.csv", b"op,n,note\nadd,8,\xe9t\xe9\n", "not a text file in UTF-8 or UTF-16"),
    ("k.csv", "op,n\nadd,8\n".encode("utf-16-le"), "not a text file in UTF-8 or UTF-16"),
]


@pytest.mark.parametrize("words", [("predict", "--cases"), ("eval",), ("seal",)], ids=lambda words: words[0])
@pytest.mark.parametrize(("name", "content", "part"), UNUSABLE, ids=[name for name, _, _ in UNUSABLE])
def test_unusable_case_files(
    words: tuple[str, ...],
    name: str,
    content: str | bytes | None,
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if content is not None:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    result = run(*words, str(tmp_path / name), "--on", "h200-sxm")
    assert result.exit_code == 2
    assert part in result.stderr
    assert result.stderr.count("\n") == 1


def test_columns_nobody_reads_are_carried_along(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text(",op,m,n,k,Remark\n0,gemm,8,8,8,mine\n")
    (row,) = answer("predict", "--cases", str(source), "--on", "h200-sxm")
    assert (row[""], row["Remark"]) == ("0", "mine")


def test_cases_in_utf_16_and_with_line_breaks_in_cells(tmp_path: Path) -> None:
    text = 'op,n,note\r\nadd,8,"two\nlines: \u00e9"\r\nadd,x,bad\r\n'
    found = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "cases.csv").write_bytes(text.encode(encoding))
        result = run("predict", "--cases", str(tmp_path / "cases.csv"), "--on", "h200-sxm", "--json")
        assert "row 2, column n" in result.stderr
        found.append(json.loads(result.stdout))
    assert found[0][0]["note"] == "two\nlines: \u00e9"
    assert found[0] == found[1] == found[2]


def test_one_case_is_one_case_and_of_many_the_first_are_shown(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text("op,n\nadd,8\n")
    assert run("predict", "--cases", str(source), "--on", "h200-sxm").stdout.startswith("1 case\n")
    source.write_text("op,n\n" + "add,8\n" * 70 + "add,x\n" * 12)
    result = run("predict", "--cases", str(source), "--on", "h200-sxm")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert (lines[0], len(lines), lines[-1]) == ("82 cases", 67, "18 more rows: use --json or --out FILE")
    named = result.stderr.splitlines()
    assert named[0].startswith("ridgeline: row 71, column n: ")
    assert len(named) == 12
    assert named[10] == "ridgeline: and 2 more rows"
    assert "12 of 82 cases could not be predicted" in named[11]


def test_the_first_cases_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows nobody sees are predicted for their errors alone; one bad row of many is found by halves, not one by one."""
    calls: list[int] = []
    whole = cases.predict_cases

    def counted(*given: Any, **more: Any) -> dict[str, Any]:
        calls.append(len(given[2]["heads"]))
        return whole(*given, **more)

    monkeypatch.setattr(cases, "predict_cases", counted)
    rows = [
        {"op": "attention", "heads": 8, "kv_heads": 8, "batch": 1, "seq_q": 64, "head_dim": size}
        for size in range(1, 129)
    ]
    rows[100] |= {"kv_heads": 3}
    defaults = cases.Defaults(load("h200-sxm"), load, {}, {})
    every, errors = cases.run(rows, defaults)
    assert list(errors) == [101]
    assert errors[101].startswith("row 101, column op: ")
    assert [index for index, row in enumerate(every, 1) if row["error"]] == [101]
    assert all(row["time_us"] > 0 for row in every if not row["error"])
    assert len(calls) == 1 + 2 * 7  # the whole, then seven halvings of 128
    assert cases.run(rows, defaults, 5) == (every[:5], errors)


def test_a_column_is_read_alike_at_once_and_one_by_one() -> None:
    """A size that only people write (64Ki) sends the whole column the slow way; nothing else may change by that."""
    sizes = [
        1,
        "2",
        3.0,
        "4e3",
        " 5 ",
        "1_000",
        0,
        -1,
        2.5,
        "x",
        "nan",
        True,
        None,
        "",
        float("nan"),
        [1],
        2**60,
        "inf",
    ]
    rows = [{"op": "add", "n": size} for size in sizes]
    defaults = cases.Defaults(load("h200-sxm"), load, {}, {})
    alone = [cases.run([row], defaults)[0][0] for row in rows]
    together, errors = cases.run([*rows, {"op": "add", "n": "64Ki"}], defaults)
    assert list(errors) == [7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18]
    assert [row["time_us"] for row in together[:-1]] == [row["time_us"] for row in alone]
    assert [row["error"].partition(", ")[2] for row in together[:-1]] == [
        row["error"].partition(", ")[2] for row in alone
    ]
    assert together[-1]["flops"] == 65536


def test_a_long_list_has_a_row_on_each_line(tmp_path: Path) -> None:
    result = run("predict", "add", "n=1..100:1", "--on", "h200-sxm", "--json")
    lines = result.stdout.splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("[", "]", 102)
    assert [row["shape"]["n"] for row in json.loads(result.stdout)] == list(range(1, 101))
    assert json.loads(json_text([{"a": float("inf"), "b": [float("nan")]}] * 65)) == [{"a": None, "b": [None]}] * 65


def test_only_the_rows_that_are_shown_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prediction.predict(OPS["gemm"](m=np.arange(1, 101), n=8, k=8), load("h200-sxm"))
    assert made.count == 100
    assert list(made.rows(3)) == list(made.rows())[:3]
    assert [row["shape"]["m"] for row in made.rows()] == list(range(1, 101))
    counts = set()
    whole = prediction.listed
    monkeypatch.setattr(prediction, "listed", lambda value, count: counts.add(count) or whole(value, count))
    result = run("predict", "gemm", "m=1..100:1", "n=8", "k=8", "--on", "h200-sxm")
    assert "36 more rows" in result.stdout
    assert counts == {64}


@pytest.mark.parametrize("words", [("m=1..10000:1", "n=1..1001:1"), ("m=1..1000001:1", "n=1", "--json")])
def test_a_sweep_has_a_largest_size(words: tuple[str, ...]) -> None:
    result = run("predict", "gemm", "k=1", *words, "--on", "h200-sxm")
    assert result.exit_code == 2
    assert "10,000,000 is the most, 1,000,000 with --json" in result.stderr


def test_ctrl_c_while_the_modules_load_ends_in_one_word(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")


@pytest.mark.parametrize("machine", ["h200-sxm", "h100-sxm", "a100-sxm-80gb", "mi300x", "xeon-8480plus"])
@pytest.mark.parametrize("weights", [None, "int4"])
def test_critical_batch_is_where_predict_turns(machine: str, weights: str | None) -> None:
    """By formula from the ridge there, by halving the range here; the access mix of the layer itself on both sides."""
    more = ("--weights", weights) if weights else ()
    told = answer("critical-batch", "4096", "14336", "--on", machine, *more)
    layer = ("linear", "batch=1", "in_features=4096", "out_features=14336")
    text = run("predict", *layer, "--on", machine, *more).output
    assert f"compute-bound from batch = {told['critical_batch']}" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("predict", "gemm", "m=1,2", "n=8", "k=8", "--on", "h200", "--took", "3 us"), "this sweep has 2"),
        (("predict", "--cases", "x.csv", "--on", "h200", "--explain"), "--explain speaks of one op"),
        (("table", "peaks", "--on", "h200", "--dtype", "zzz"), "unknown dtype 'zzz'"),
        (("chart", "roofline", "--on", "h200", "--and", "t4"), "--and goes with compare"),
        (("chart", "roofline", "--peak", "1e-300 FLOP/s", "--bandwidth", "1 TB/s"), "between 1 and 1e+27 per second"),
        (("merge", "a.toml", "b.toml", "--out", "m.svg"), "written to .toml, not to '.svg'"),
        (("measure", "cpu", "--out", "no/such/folder/x.toml"), "does not exist; create it first"),
        (("run", "--report", "no/such/folder/x.html"), "does not exist; create it first"),
        (("measure", "collective", "--against", "here.toml"), "several machines"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.toml").write_text(save.text(load("h200-sxm")), encoding="utf-8")
    result = run(*words)
    assert result.exit_code == 2
    assert says in result.output


def test_a_quantity_without_a_unit_is_taken_in_base_units_and_told() -> None:
    sizes = ("gemm", "m=64", "n=64", "k=64")
    result = run("predict", *sizes, "--peak", "989e12", "--bandwidth", "3.35 TB/s", "--json")
    assert result.stderr == "--peak 989e12 has no unit and is read as 989 TFLOP/s\n"
    with_unit = run("predict", *sizes, "--peak", "989 TFLOP/s", "--bandwidth", "3.35 TB/s", "--json")
    assert with_unit.stderr == ""
    assert json.loads(result.stdout) == json.loads(with_unit.stdout)


def test_a_full_place_for_the_answer_is_one_message(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ridgeline", "machines"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be printed: No space left on device" in done.stderr


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_being_told_to_end_stops_long_work_as_ctrl_c_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
    assert f"told to end ({name})" in capsys.readouterr().err


def test_a_machine_shows_what_was_reached_of_its_peaks_and_under_which_conditions() -> None:
    text = run("machines", "h200-sxm").output
    assert re.search(r"tensor\.bf16 +989\.4 TFLOP/s +989\.4 TFLOP/s +834\.2 TFLOP/s +84\.3 %", text)
    assert re.search(r"driver +580\.159\.04", text)
    assert "reached" not in run("machines", "h100-sxm").output, "nothing was measured there"


def test_tiles_have_traffic_bound_and_rate() -> None:
    """4096^3 in fp32 on an A100: without reuse two words read per multiply-add and one written per result."""
    rows = answer("table", "tiling", "--on", "a100-sxm-80gb", "--dtype", "fp32")["rows"]
    none, most = rows[0], rows[-1]
    assert none["traffic"] == pytest.approx(4 * (2 * 4096**3 + 4096**2))
    assert (none["bound"], none["attainable"]) == ("memory", pytest.approx(0.25 * 2.039e12, rel=1e-3))
    assert (most["bound"], most["attainable"]) == ("compute", 19.5e12)
    assert rows[1]["bandwidth"] == load("a100-sxm-80gb").level("l1").bandwidth.value()


def test_a_sweep_in_whole_numbers_counts_operations() -> None:
    text = run("predict", "gemm", "m=1,64", "n=64", "k=64", "--dtype", "int8", "--on", "h200").output
    assert "524.3 kOP" in text
    assert "FLOP/s" not in text
