"""`ridgeline predict`: fields, tables, sweeps, pictures, and when a measured time is given."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import answer, run

from ridgeline.app.cli.present import json_text
from ridgeline.machines.load import load
from ridgeline.prediction import predict as prediction
from ridgeline.programs.ops import OPS

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


def test_json_has_one_shape_whatever_the_row_count(tmp_path: Path) -> None:
    one = answer("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm")
    several = answer("predict", "gemm", "m=8,16", "n=8", "k=8", "--on", "h200-sxm")
    shared = {"schema", "ridgeline", "op", "dtype", "machine", "ceilings", "rows"}
    assert shared <= set(one)
    assert shared == set(several)
    assert (len(one["rows"]), len(several["rows"])) == (1, 2)
    assert one["rows"][0] == several["rows"][0] == {key: one[key] for key in one["rows"][0]}
    for count in (1, 2):
        source, target = tmp_path / "cases.csv", tmp_path / "out.json"
        source.write_text("op,m,n,k\n" + "gemm,8,8,8\n" * count)
        document = answer("predict", "--cases", str(source), "--on", "h200-sxm")
        assert shared == set(document)
        assert len(document["rows"]) == count
        run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
        assert json.loads(target.read_text()) == document
        again = answer("predict", "--cases", str(target), "--on", "h200-sxm")  # its own answer is a table of cases
        assert [row["time_us"] for row in again["rows"]] == [row["time_us"] for row in document["rows"]]


def test_the_input_of_a_collective_sweep_is_its_first_column(tmp_path: Path) -> None:
    words = ("predict", "all_reduce", "bytes=1MiB,2MiB", "ranks=8", "--on", "h200-sxm")
    lines = run(*words).stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.startswith((" ", "1", "2"))]
    assert rows[-2:] == ["1,048,576", "2,097,152"]
    run(*words, "--out", str(tmp_path / "a.csv"))
    table = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [float(row["given_bytes"]) for row in table] == [2**20, 2**21]  # as in a table of cases
    assert float(table[0]["bytes"]) == 2 * 2**20  # what moves


def test_levels_and_explain_are_in_the_document() -> None:
    words = ("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")
    plain, more = answer(*words), answer(*words, "--levels", "--explain")
    assert {key: value for key, value in more.items() if key not in ("levels", "terms", "items")} == plain
    assert [row["level"] for row in more["levels"]] == ["l1", "l2", "hbm"]
    assert max(row["time"] for row in more["terms"]) == pytest.approx(more["floor_us"] / 1e6)
    *items, total = more["items"]
    assert sum(item["time"] for item in items) == pytest.approx(total["time"], rel=1e-3)


def test_several_axes_make_a_grid() -> None:
    rows = answer("predict", "gemm", "m=1..8192", "n=4096", "k=1024,4096", "--on", "h100-sxm")["rows"]
    assert len(rows) == 14 * 2
    assert [row["shape"]["m"] for row in rows[::2]] == [2**power for power in range(14)]
    assert {row["shape"]["k"] for row in rows} == {1024, 4096}


@pytest.mark.parametrize("size", ["8,", "8..8"])
def test_an_axis_of_one_value_is_that_value(size: str) -> None:
    asked = run("predict", "gemm", f"m={size}", "n=8", "k=8", "--on", "h200-sxm")
    assert asked.exit_code == 0
    assert asked.stdout == run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm").stdout


def test_table_of_one_prediction_reads_well() -> None:
    text = run("predict", "axpy", "n=1e8", "--dtype", "fp32", "--on", "a100-sxm-80gb").output
    lines = text.splitlines()
    assert re.fullmatch(
        r"\d+ us \[\d+-\d+\] · memory-bound \(HBM\) · \d+ % of roofline · MFU [\d.]+ % · MBU \d+ %", lines[0]
    )
    assert lines[1] == "axpy n=100000000 fp32 on a100-sxm-80gb, stated ceilings"
    assert lines[2] == ""
    assert len(lines) <= 13
    assert "0.167 FLOP/B at HBM; ridge 9.56 FLOP/B" in text
    assert "1.7 % of the vector.fp32 peak" in text
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
        "80 % interval",
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
    assert re.search(r"^l2 .*31\.5 ", text, re.M)
    assert re.search(r"^hbm .*683 ", text, re.M)
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
    assert text.startswith("measured 500 us: 264 % of roofline")
    assert "above the roofline" in text


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


def test_a_long_list_has_a_row_on_each_line(tmp_path: Path) -> None:
    result = run("predict", "add", "n=1..100:1", "--on", "h200-sxm", "--json")
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + 6 + 1 + 100 + 2  # the object, what the rows share, `rows`, each row, two brackets
    assert [row["shape"]["n"] for row in json.loads(result.stdout)["rows"]] == list(range(1, 101))
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
    assert "is over the limit of 10,000,000" in result.stderr
    assert "--limit cases=" in result.stderr


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        (("--on", "h200-sxm", "--took", "220"), "220 what? write 220us, 220ms or 220s"),
        (("--on", "h200-sxm", "--launch", "8"), "8 what? write 8us, 8ms or 8s"),
        (("--peak", "989", "--bandwidth", "3.35 TB/s"), "989 what? write '989 TFLOP/s', '989 GFLOP/s' or '989 FLOP/s'"),
        (("--peak", "989e12", "--bandwidth", "3.35 TB/s"), "989e12 what? write '989e12 FLOP/s'"),
        (("--peak", "989 TFLOP/s", "--bandwidth", "3.35"), "3.35 what? write '3.35 TB/s', '3.35 GB/s' or '3.35 B/s'"),
    ],
)
def test_a_quantity_without_a_unit_is_asked_for_one(words: tuple[str, ...], asks: str) -> None:
    result = run("predict", "gemm", "m=64", "n=64", "k=64", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"{asks}\n")
    assert result.stderr.count("\n") == 1


def test_base_units_are_taken_where_they_are_written() -> None:
    sizes = ("gemm", "m=64", "n=64", "k=64", "--bandwidth", "3.35 TB/s")
    plain = answer("predict", *sizes, "--peak", "989e12 flop/s")
    assert plain == answer("predict", *sizes, "--peak", "989 TFLOP/s")


def test_a_sweep_in_whole_numbers_counts_operations() -> None:
    text = run("predict", "gemm", "m=1,64", "n=64", "k=64", "--dtype", "int8", "--on", "h200").output
    assert "TOP/s" in text
    assert "524 kOP" in run("predict", "gemm", "m=1,64", "n=64", "k=64", "--dtype", "int8", "--on", "h200", "-v").output
    assert "FLOP/s" not in text


def test_a_time_above_the_roofline_is_bound_by_no_ceiling() -> None:
    """932 % of the bandwidth was called memory-bound."""
    words = ("predict", "gelu", "n=1e6", "--on", "h200-sxm", "--took")
    assert "932 % of the bandwidth; above the roofline" in run(*words, "0.1us").stdout
    assert "neither peak nor bandwidth is half used" in run(*words, "5us").stdout
