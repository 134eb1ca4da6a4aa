"""Rows and words as arguments of ops: one rule for a cell, a column and a word; cases as programs and array calls."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.columns import Columns
from ridgeline.core.errors import InputError
from ridgeline.programs import cases
from ridgeline.programs.ops import OPS, find

CELLS = [1, "2", 3.0, "4e3", " 5 ", "1_000", "64Ki", "2^20", 2**53]
FAULTY = [True, 0, -1, 2.5, "x", "nan", [1], {"n": 1}, 2**60, "inf", float("inf")]


# -- one row -------------------------------------------------------------------------------------------------------


def test_a_row_of_text_and_a_row_of_values_bind_alike() -> None:
    op = find("attention")
    text = {
        "batch": "2",
        "heads": "8",
        "seq_q": "1Ki",
        "head_dim": "64",
        "causal": "yes",
        "dtype": "bfloat16",
        "m": "7",
    }
    values = {"batch": 2, "heads": 8.0, "seq_q": 1024, "head_dim": np.int64(64), "causal": True, "dtype": "bf16"}
    expected = {"batch": 2.0, "heads": 8.0, "seq_q": 1024.0, "head_dim": 64.0, "causal": 1.0, "dtype": "bf16"}
    assert op.bind(text) == op.bind(values) == expected
    assert op(**op.bind(text)).flops == op(**expected).flops


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"m": 8, "n": 8}, "column k: gemm needs it and it is empty"),
        ({"m": 8, "n": " ", "k": 8}, "column n: gemm needs it and it is empty"),
        ({"m": 8, "n": 8, "k": float("nan")}, "column k: gemm needs it and it is empty"),
        ({"m": 8, "n": 8, "k": "x"}, "column k: must be a whole number of at least 1, got 'x'"),
        (
            {"m": 8, "n": 8, "k": "1e30"},
            r"column k: must be a whole number of at least 1, got '1e30' \(at most 2\^53 = 9007199254740992, ",
        ),
        ({"m": 8, "n": 8, "k": [8, 16]}, r"column k: must be a whole number of at least 1, got a list of 2"),
        ({"m": 8, "n": 8, "k": 8, "beta": "maybe"}, "column beta: must be yes or no, got 'maybe'"),
        ({"m": 8, "n": 8, "k": 8, "dtype": "bf61"}, "column dtype: unknown dtype 'bf61': did you mean bf16"),
        (
            {"m": 8, "n": 8, "k": 8, "traffic": "tile"},
            "column traffic: unknown traffic of gemm 'tile': did you mean tiled",
        ),
    ],
)
def test_a_fault_names_its_column(row: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"^{says}"):
        find("gemm").bind(row)


def test_defaults_are_for_words_that_a_row_leaves_out() -> None:
    op, row = find("gemm"), {"m": 8, "n": 8, "k": 8}
    assert op.bind(row, {"dtype": "fp8", "kv": "fp8", "m": "9"}) == {**row, "dtype": "fp8_e4m3"}
    assert op.bind({**row, "dtype": "fp16"}, {"dtype": "fp8"})["dtype"] == "fp16"


@pytest.mark.parametrize("kind", ["Size", "Count", "Flag"])
@given(column=st.lists(st.sampled_from([*CELLS, *FAULTY, "yes", "off", "1.0"]), min_size=1, max_size=8))
def test_a_column_holds_what_its_cells_hold(kind: str, column: list[Any]) -> None:
    param = next(param for op in OPS.values() for param in op.params.values() if param.kind == kind)
    values, faults = param.column(column)
    for place, cell in enumerate(column):
        if place in faults:
            with pytest.raises(InputError) as caught:
                param.read(cell)
            assert faults[place] == str(caught.value)
        else:
            assert values[place] == param.read(cell)


# -- words of a command --------------------------------------------------------------------------------------------


def test_words_are_arguments() -> None:
    op = find("gemm")
    values = cases.arguments(op, ["m=1..8", "n=2^4", "k=64Ki", "beta=yes"], {"dtype": "fp8", "weights": None})
    assert values.pop("m").tolist() == [1, 2, 4, 8]
    assert values == {"n": 16, "k": 65536, "beta": "yes", "dtype": "fp8"}
    with pytest.raises(InputError, match=r"gemm: m: '1\.\.8' is not a number"):
        cases.arguments(op, ["m=1..8"], sweeps=False)


# -- programs ------------------------------------------------------------------------------------------------------


def test_programs_are_named_and_numbered() -> None:
    made = cases.program([{"op": "relu", "n": "8"}, {"op": "relu", "n": 8.0}, {"op": "relu", "n": 8, "name": "last"}])
    assert [step.name for step in made.steps] == ["relu", "relu#2", "last"]
    with pytest.raises(InputError, match="row 1, column op"):
        cases.program([{"n": 8}])
    with pytest.raises(InputError, match="row 1, column n: must be"):
        cases.program([{"op": "relu", "n": 0}])
    with pytest.raises(InputError, match="no cases"):
        cases.program([])


def test_cases_are_written_as_sizes_are_everywhere() -> None:
    rows = [{"name": " a ", "op": "add", "n": "2^20", "count": "4", "machine": "h200-sxm"}, {"op": "add", "n": "64Ki"}]
    made = cases.program(rows)
    assert [(step.name, step.work.shape["n"], step.count) for step in made.steps] == [("a", 2**20, 4), ("add", 2**16, 1)]  # fmt: skip


# -- array calls ---------------------------------------------------------------------------------------------------


def test_rows_that_share_their_words_make_one_array_call() -> None:
    rows: list[dict[str, Any]] = [
        {"op": "gemm", "m": 1, "n": "2", "k": 3, "dtype": "fp16", "backend": ""},
        {"op": " gemm ", "m": 4, "n": 5, "k": "6"},
        {"op": "gemm", "m": "7", "n": 8, "k": 9, "dtype": "fp16"},
        {"op": "gemm", "m": 1, "n": 2, "k": 3, "dtype": "fp16", "backend": "other"},
        {"op": "gemm", "m": 1, "n": 0, "k": 3, "dtype": "fp16"},
        {"op": "gemm", "m": 1, "k": 3},
        {"op": "norm", "m": 1},
        {"op": None},
        {"op": "add", "n": 5, "dtype": "bf61"},
    ]
    found, faults = cases.batches(Columns.of_rows(rows), {"dtype": "fp8"})
    assert [(batch.op.name, batch.places, batch.words, batch.labels) for batch in found] == [
        ("gemm", [0, 2], {"dtype": "fp16"}, {}),
        ("gemm", [1], {"dtype": "fp8_e4m3"}, {}),
        ("gemm", [3], {"dtype": "fp16"}, {"backend": "other"}),
    ]
    assert {name: values.tolist() for name, values in found[0].sizes.items()} == {"m": [1, 7], "n": [2, 8], "k": [3, 9]}
    assert {place: why[0].partition(":")[0] for place, why in faults.items()} == {
        4: "column n",
        5: "column n",
        6: "column op",
        7: "column op",
        8: "column dtype",
    }
    part = found[0].part(1, 2)
    assert (part.places, part.sizes["m"].tolist()) == ([2], [7])


def test_array_calls_bind_what_rows_bind() -> None:
    rows = [
        {"op": "attention", "batch": 1 + place, "heads": 8, "seq_q": 64, "head_dim": "64", "causal": place % 2}
        for place in range(5)
    ]
    (batch,), faults = cases.batches(Columns.of_rows(rows))
    assert faults == {}
    for place, row in enumerate(rows):
        assert find("attention").bind(row) == {name: values[place] for name, values in batch.sizes.items()}


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_cases_are_written_and_read_again(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    rows = [{"op": "gemm", "m": 8, "n": 16, "k": 2, "note": 'a, "b"\nc'}, {"op": "add", "n": 5, "note": None}]
    cases.write(rows, tmp_path / f"cases{suffix}")
    again = cases.read(tmp_path / f"cases{suffix}")
    assert [row["note"] or "" for row in again] == ['a, "b" c', ""]  # on one line
    assert [find(row["op"]).bind(row) for row in again] == [find(str(row["op"])).bind(row) for row in rows]


def test_a_prediction_is_a_case_again(tmp_path: Path) -> None:
    (tmp_path / "made.json").write_text('[{"op": "gemm", "shape": {"m": 8, "n": 8, "k": 8}, "bytes": 384}]')
    (row,) = cases.read(tmp_path / "made.json")
    assert math.prod(find("gemm").bind(row).values()) == 512
