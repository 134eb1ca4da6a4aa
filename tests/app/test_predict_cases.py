"""`ridgeline predict --cases`: tables of cases in and out, bad rows, files that cannot be read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from commands import answer, run

from ridgeline.core.columns import Columns
from ridgeline.machines.load import load
from ridgeline.prediction import table as cases

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
    again = answer("predict", "--cases", str(target), "--on", "h200-sxm")["rows"]
    assert [row["note"] for row in again] == ["first", "second", "third", "fourth"]
    one = answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")
    assert float(again[0]["time_us"]) == pytest.approx(one["time_us"])
    assert again[3]["bound"] == "overhead"
    assert {row["error"] for row in again} == {""}


def test_the_engine_of_a_row_is_the_op_s_own(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text(
        "op,dtype,flops,bytes,engine\ncustom,bf16,1e12,1e9,matrix\ncustom,bf16,1e12,1e9,vector\ncustom,bf16,1e12,1e9,\n"
    )
    rows = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"]
    case = ("predict", "custom", "flops=1e12", "bytes=1e9", "--dtype", "bf16", "--on", "h200-sxm")
    times = [answer(*case, f"engine={engine}")["time_us"] for engine in ("matrix", "vector", "vector")]
    assert [float(row["time_us"]) for row in rows] == pytest.approx(times)
    assert times[0] < times[1] / 2
    forced = answer("predict", "--cases", str(source), "--on", "h200-sxm", "--engine", "vector")["rows"]
    alone = answer(*case, "engine=matrix", "--engine", "vector")["time_us"]
    assert float(forced[0]["time_us"]) == pytest.approx(alone)
    assert alone > 2 * times[0]


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
    row = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"][0]
    assert row["given_time_us"] == "12.5"
    assert row["time_us"] != 12.5


@pytest.mark.parametrize("suffix", [".csv", ".json"])
def test_a_predicted_collective_is_the_same_case_again(suffix: str, tmp_path: Path) -> None:
    """The result `bytes` is what is moved; read again, the input must not become twice as large."""
    source, target = tmp_path / "cases.csv", tmp_path / f"out{suffix}"
    source.write_text("op,bytes,ranks\nall_reduce,64MiB,8\n")
    run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    (first,) = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"]
    (again,) = answer("predict", "--cases", str(target), "--on", "h200-sxm")["rows"]
    assert again["time_us"] == first["time_us"]
    assert again["bytes"] == first["bytes"] == 2 * 2**26


def test_machine_may_be_a_column(tmp_path: Path) -> None:
    source = tmp_path / "cases.jsonl"
    source.write_text(
        '{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "a100-sxm-80gb"}\n{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "h100-sxm"}\n'
    )
    rows = answer("predict", "--cases", str(source))["rows"]
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
    ("b.jsonl", '{"op": "gemm", "m": 1, "m": 2}\n', "line 1: 'm' appears twice"),
    ("e.csv", "op,m,n,k,M\ngemm,1,2,3,4\n", "has the column m twice, once as 'M'; keep one of them"),
    ("f.csv", "op,m,N, n,k\ngemm,1,2,2,3\n", "has the column n twice"),
    ("g.csv", "m,n,k\n1,2,3\n", "has no column op, which names the op of each case; it has 'm, n, k'\n"),
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
    assert result.stderr.count("\n") <= 2


@pytest.mark.parametrize(
    ("header", "row", "plain"),
    [
        ("op,M,N,K,Dtype", "gemm,8,16,32,fp16", "gemm m=8 n=16 k=32 dtype=fp16"),
        ("OP, m,n ,K", "matmul,8,16,32", "gemm m=8 n=16 k=32"),
        (
            "op,B,in,out,out-dtype",
            "linear,8,64,128,fp32",
            "linear batch=8 in_features=64 out_features=128 out_dtype=fp32",
        ),
        ("op,batch_size,num_heads,seq,head_dim", "sdpa,1,8,64,64", "attention batch=1 heads=8 seq_q=64 head_dim=64"),
        ("op,bytes,world_size", "all-reduce,64MiB,8", "all_reduce bytes=67108864 ranks=8"),
    ],
)
def test_columns_may_have_the_common_names(header: str, row: str, plain: str, tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text(f"{header}\n{row}\n")
    (made,) = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"]
    expected = answer("predict", *plain.split(), "--on", "h200-sxm")
    assert {key: made[key] for key in ("op", "dtype", "time_us", "floor_us")} == {
        key: expected[key] for key in ("op", "dtype", "time_us", "floor_us")
    }


def test_a_column_of_the_op_goes_before_another_name_of_it(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text("op,seq,batch,heads,seq_q,head_dim\nattention,remark,1,8,64,64\n")
    (row,) = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"]
    assert row["seq"] == "remark"


def test_columns_nobody_reads_are_carried_along(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text(",op,m,n,k,Remark\n0,gemm,8,8,8,mine\n")
    (row,) = answer("predict", "--cases", str(source), "--on", "h200-sxm")["rows"]
    assert (row[""], row["Remark"]) == ("0", "mine")


def test_cases_in_utf_16_and_with_line_breaks_in_cells(tmp_path: Path) -> None:
    text = 'op,n,note\r\nadd,8,"two\nlines: \u00e9"\r\nadd,x,bad\r\n'
    found = []
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "cases.csv").write_bytes(text.encode(encoding))
        result = run("predict", "--cases", str(tmp_path / "cases.csv"), "--on", "h200-sxm", "--json")
        assert "row 2, column n" in result.stderr
        found.append(json.loads(result.stdout)["rows"])
    assert found[0][0]["note"] == "two lines: \u00e9"
    assert found[0] == found[1] == found[2]


def test_one_case_is_one_case_and_of_many_the_first_are_shown(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text("op,n\nadd,8\n")
    assert run("predict", "--cases", str(source), "--on", "h200-sxm").stdout.startswith("1 case: 1.15 us")
    source.write_text("op,n\n" + "add,8\n" * 70 + "add,x\n" * 12)
    result = run("predict", "--cases", str(source), "--on", "h200-sxm")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert (lines[0], len(lines), lines[-1]) == (
        "first 64 of 82 cases: 1.15 us to 1.15 us, 73.7 us in total; 64 overhead-bound",
        69,
        "18 more rows: use --json or --out FILE",
    )
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
    assert list(errors) == [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]
    assert [row["time_us"] for row in together[:-1]] == [row["time_us"] for row in alone]
    assert [row["error"].partition(", ")[2] for row in together[:-1]] == [
        row["error"].partition(", ")[2] for row in alone
    ]
    assert together[-1]["flops"] == 65536


# -- one check of rows, in every command ---------------------------------------------------------------------------

BAD_ROWS: list[dict[str, Any]] = [
    {"op": "gemm", "m": [8, 16], "n": 8, "k": 0},
    {"op": "gemm", "m": 10**400, "n": True, "k": 8},
    {},
    {"op": ["gemm"], "m": 8},
    {"op": "gemm", "m": 8, "n": 8, "k": 8, "dtype": "int4_g" + "5" * 5000},
    {"op": "gemm", "m": 8, "n": 8, "k": 8, "count": [2], "name": {"a": 1}},
]
IN_PREDICT = [
    "row 1, column m: must be a whole number of at least 1, got a list of 2",
    "column k: must be a whole number of at least 1, got '0'",
    "column n: must be a whole number of at least 1, got 'True'",
    "row 2, column m: must be a whole number of at least 1, got '1000",
    "row 3, column op: is empty",
    "row 4, column op: unknown op 'a list of 1'",
    "row 5, column dtype: unknown dtype 'int4_g555",
]


@pytest.mark.parametrize(
    "words",
    [("predict", "--cases"), ("eval",), ("seal",), ("reconcile", "times.csv", "--cases")],
    ids=lambda words: words[0],
)
def test_every_command_has_all_complaints_at_once(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("name,time_us\ngemm,5\n")
    rows = [{**row, "time_us": 5} for row in BAD_ROWS]
    (tmp_path / "cases.json").write_text(json.dumps(rows))
    result = run(*words, "cases.json", "--on", "h200-sxm")
    assert result.exit_code == {"predict": 1, "eval": 0}.get(words[0], 2), result.output
    assert all(part in result.stderr for part in IN_PREDICT), result.stderr
    assert max(map(len, result.stderr.splitlines())) < 400
    if words[0] in ("seal", "reconcile"):
        assert "9 mistakes found" in result.stderr
        assert "row 6, column count: is '[2]'" in result.stderr
        assert "row 6, column name: must be a text, got a table of 1" in result.stderr
        assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_names_are_clean_wherever_they_come_out(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    source, target = tmp_path / "cases.json", tmp_path / f"out{suffix}"
    names = ["\x1b[31mred\x1b[0m", "a\ud800b", "x" * 400, "=1+1", "two\nlines", "\u202eabc"]
    source.write_text(json.dumps([{"op": "add", "n": 8, "name": name} for name in names]))
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    assert result.exit_code == 0, result.output
    again = answer("predict", "--cases", str(target), "--on", "h200-sxm")["rows"]
    assert [row["name"] for row in again] == ["red", "a\ufffdb", "x" * 400, "=1+1", "two lines", "\ufffdabc"]
    if suffix == ".csv":
        assert "'=1+1" in target.read_text()


def test_many_different_faults_are_counted_and_some_explained(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    lines = [f"nonsense{place},8,,\nadd,8,bf{place},\nadd,8,,machine{place}\n" for place in range(1000)]
    source.write_text("op,n,dtype,machine\n" + "".join(lines) + "add,8,,\n")
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)["rows"]
    # bf16 is one of the dtypes
    assert [place for place, row in enumerate(rows) if not row["error"]] == [3 * 16 + 1, 3000]
    assert "correct those first" in rows[2700]["error"]
    assert "unknown dtype 'bf900'" in rows[2701]["error"]
    assert "correct those first" in rows[2702]["error"]


def test_blocks_are_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are predicted and written block by block, and numbered through."""
    rows = [{"op": "add", "n": 1 + place, "note": f"n{place}"} for place in range(40)]
    rows[33]["n"] = 0
    defaults = cases.Defaults(load("h200-sxm"), load, {}, {})
    every, errors = cases.run(rows, defaults)
    monkeypatch.setattr(Columns.blocks, "__defaults__", (7,))
    assert cases.run(rows, defaults) == (every, errors)
    assert list(errors) == [34]
    assert errors[34].startswith("row 34, column n: ")
    assert cases.run(rows, defaults, 5) == (every[:5], errors)
    (tmp_path / "cases.json").write_text(json.dumps(rows))
    result = run(
        "predict", "--cases", str(tmp_path / "cases.json"), "--on", "h200-sxm", "--out", str(tmp_path / "a.csv")
    )
    assert result.exit_code == 1
    written = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert [row["note"] for row in written] == [row["note"] for row in rows]
    assert [float(row["time_us"] or 0) for row in written] == pytest.approx([row["time_us"] or 0 for row in every])
    assert (written[33]["error"], written[33]["time_us"]) == (errors[34], "")
