"""Tables from files: read under limits, tidied once, written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core import csv_files
from ridgeline.core.columns import Columns
from ridgeline.core.errors import InputError
from ridgeline.core.intake import limits
from ridgeline.core.intake.text import guarded, unguarded
from ridgeline.core.tabular import opened, read_columns, read_rows, whole_text, write_blocks, write_rows

MIB = 1 << 20


@pytest.fixture
def small_limits() -> Iterator[None]:
    limits.set_limits(["read=1MiB", "document=1MiB", "line=64KiB", "rows=1000", "cells=5000"])
    yield
    limits._given.clear()


def bomb(path: Path, start: bytes, repeated: bytes, mebibytes: int) -> Path:
    """A packed file of a few kB per MiB that it unpacks to."""
    with gzip.open(path, "wb", compresslevel=6) as out:
        out.write(start)
        for _ in range(mebibytes):
            out.write(repeated * (MIB // len(repeated)))
    return path


# -- bytes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".json", ".jsonl"])
def test_what_unpacks_to_much_is_refused_early(suffix: str, tmp_path: Path) -> None:
    path = bomb(tmp_path / f"bomb{suffix}", b"op,n\n", b"add,8\n", 65)
    with pytest.raises(InputError, match=r"unpacks to is over the limit of 100 .*--limit unpacking=200"):
        read_rows(path)


def test_a_packed_file_of_ordinary_size_is_read(tmp_path: Path) -> None:
    path = bomb(tmp_path / "cases.csv", b"op,n\n", b"add,8\n", 1)
    assert len(read_columns(path)) == MIB // 6


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "[" + " " * 2 * MIB + "]", "limit document="),
        ("a.csv", "op,n\nadd," + "8" * 100_000, "field larger|limit line="),
        ("b.csv", 'op,n\nadd,"' + "8\n" * 2 * MIB, "field larger|limit "),
        ("c.csv", "op,n\n" + "add,8\n" * 1001, "limit rows="),
        ("d.csv", ",".join(map(str, range(1000))) + "\n" + "x\n" * 6, "limit cells="),
        ("b.json", "[" + "{}," * 1000 + "{}]", "limit cells="),
        ("c.jsonl", '{"a": 1}\n' * 800, "limit cells="),
    ],
)
def test_over_a_limit_names_the_option(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says):
        read_rows(tmp_path / name)


@pytest.mark.usefixtures("small_limits")
def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "endless.txt").write_text("x" * 900_000)
    with opened(tmp_path / "endless.txt") as text, pytest.raises(InputError, match="--limit line="):
        next(text)
    with opened(tmp_path / "endless.txt") as text:
        assert len(text.read(70_000)) == 70_000  # pieces may be of any size


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b", b"\x1f\x8b\x08\x00garbage", gzip.compress(b"op,n\nadd,8\n" * 99, mtime=0)[:-9]],
    ids=["cut", "garbage", "short"],
)
def test_a_broken_packed_file_is_one_message(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read|cut off"):
        read_rows(tmp_path / "a.csv")


def test_memory_that_runs_out_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("op,n\nadd,8\n")

    def no_memory(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(csv_files._Growing, "add", no_memory)
    with pytest.raises(InputError, match=r"a\.csv.*more memory than there is"):
        read_rows(tmp_path / "a.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_say_what_they_are(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\u00e9 \ufffd".encode(encoding))
    assert whole_text(tmp_path / "a.txt") == "\u00e9 \ufffd"
    (tmp_path / "b.txt").write_bytes("\u00e9".encode("latin-1"))
    with pytest.raises(InputError, match="not a text file"):
        whole_text(tmp_path / "b.txt")


# -- parquet -------------------------------------------------------------------------------------------------------


def test_a_parquet_file_that_says_it_is_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = 1_000_000  # of which run-length encoding leaves a few kB
    table = pa.table({name: np.full(rows, 8.0) for name in ("m", "n")})
    parquet.write_table(table, tmp_path / "rows.parquet")
    assert (tmp_path / "rows.parquet").stat().st_size < 100_000
    limits.set_limits(["cells=1e6"])
    try:
        with pytest.raises(InputError, match=r"2,000,000 cells is over .*--limit cells="):
            read_rows(tmp_path / "rows.parquet")
    finally:
        limits._given.clear()
    parquet.write_table(pa.table({"x": ["a" * 65 * MIB]}), tmp_path / "text.parquet", compression="zstd")
    with pytest.raises(InputError, match="--limit unpacking="):
        read_rows(tmp_path / "text.parquet")


def test_a_text_that_many_cells_share_is_kept_once(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"x": ["a" * MIB] * 50}), tmp_path / "a.parquet")
    cells = read_columns(tmp_path / "a.parquet").cells["x"]
    assert len(set(map(id, cells))) == 1
    assert cells[0].endswith("a...")


def test_values_that_only_parquet_has(tmp_path: Path) -> None:
    import datetime
    from decimal import Decimal

    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    day = datetime.date(2024, 1, 2)
    parquet.write_table(pa.table({"d": [day], "x": [Decimal("1.50")], "l": [[1, 2]]}), tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet") == [{"d": "2024-01-02", "x": 1.5, "l": [1, 2]}]
    parquet.write_table(pa.table({"b": [b"\xff"]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="row 1, column b"):
        read_rows(tmp_path / "b.parquet")


# -- JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 100_000, "not valid json"),
        ('[{"m": ' + "1" * 5000 + "}]", "a number has thousands of digits"),
        ('[{"a": ' + "[" * 40 + "]" * 40 + "}]", "row 1, column a: is nested deeper than 32"),
        ('[{"a": 1e999}, {"a": -Infinity}]', "row 1, column a: is inf(?s:.*)row 2, column a: is -inf"),
        ('[{"a": 1, "a\\u0007": 2, "a\\ud800": 3}]', "two columns have the same name"),
    ],
)
def test_bad_documents_are_refused_with_their_places(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=says):
        read_rows(tmp_path / "a.json")


def test_nan_is_nothing_and_text_is_clean(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": NaN, "b": "\\u001b[31mred\\ud800\\n!", "c": {"d": ["\\u0007"]}}]')
    assert read_rows(tmp_path / "a.json") == [{"a": None, "b": "red\ufffd !", "c": {"d": ["\ufffd"]}}]


# -- writing -------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8).filter(str.isprintable)


@given(st.text(max_size=12))
def test_a_guarded_text_is_found_again(text: str) -> None:
    assert unguarded(guarded(text)) == text
    assert not guarded(text).startswith(("=", "@"))


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(-9, 10**15)), min_size=1, max_size=20))
def test_csv_is_what_the_csv_module_reads(rows: list[tuple[str, str, int]]) -> None:
    table = Columns(
        {"a,": [row[0] for row in rows], "b": [row[1] for row in rows], "c": [row[2] for row in rows]}, len(rows)
    )
    text = "".join([csv_files.csv_header(["a,", "b", "c"]), *csv_files.csv_pieces(table, ["a,", "b", "c"])])
    header, *again = csv.reader(io.StringIO(text, newline=""))
    assert header == ["a,", "b", "c"]
    assert [(unguarded(a), unguarded(b), int(c)) for a, b, c in again] == rows


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=300))
def test_numbers_of_a_csv_file_keep_ten_digits(values: list[float]) -> None:
    table = Columns({"x": np.array(values), "y": list(values)}, len(values))
    lines = "".join(csv_files.csv_pieces(table, ["x", "y"])).splitlines()
    for line, value in zip(lines, values, strict=True):
        for field in line.split(","):
            assert math.isclose(float(field), value, rel_tol=1e-9, abs_tol=1e-300)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_a_table_that_fails_in_the_middle_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")

    def blocks() -> Iterator[Columns]:
        yield Columns({"a": [1, 2]}, 2)
        raise InputError("no more")

    with pytest.raises(InputError, match="no more"):
        write_blocks(blocks(), ["a"], tmp_path / f"out{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_rows_of_every_kind_are_written(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    rows = [{"a": 10**30, "b": [1], "c": True, "d": math.inf, "": "x"}, {"a": 1, "e": "=1+1"}]
    write_rows(rows, tmp_path / f"out{suffix}")
    if suffix != ".parquet":
        text = (tmp_path / f"out{suffix}").read_text()
        assert "Infinity" not in text
        json.loads(text) if suffix == ".json" else None


def test_a_row_with_nothing_in_its_only_column_stays_a_row(tmp_path: Path) -> None:
    write_rows([{"a": ""}, {"a": "x"}, {"a": None}], tmp_path / "a.csv")
    assert [row["a"] for row in read_rows(tmp_path / "a.csv")] == ["", "x", ""]
