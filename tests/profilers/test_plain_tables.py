"""Tables as people have them: other separators, decimal commas, units in cells, joined files, comments."""

from pathlib import Path

import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.tabular import number, read_rows
from ridgeline.gaps.timings import load as load_timings
from ridgeline.profilers.load import document, load


@pytest.mark.parametrize(
    "text",
    [
        "name,time_us,flops,bytes\ntriad,100,2e6,2.4e7\n",
        "name;time_us;flops;bytes\ntriad;100,0;2e6;2.4e7\n",  # a point that separates no thousands stays a point
        'name,time_us,flops,bytes\ntriad,100,"2,000,000","24,000,000"\n',
        "name;time_us;flops;bytes\ntriad;100,0;2.000.000;24.000.000\n",
        "name,time,flops,bytes\ntriad,100 us,2 MFLOP,24 MB\n",
        "name;time_us;flops;bytes\ntriad;0,1 ms;2e6;2,4e7\n",  # the unit of a cell counts, whatever its column is called
        "# made by hand\n\nname,time_us,flops,bytes\ntriad,100,2e6,2.4e7\n",
    ],
)
def test_a_table_is_read_however_it_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    (item,) = load(tmp_path / "t.csv")
    assert (dict(item.flops), dict(item.bytes)) == ({"all": 2e6}, {"main": 2.4e7})
    assert item.median == pytest.approx(1e-4)


def test_the_headers_of_joined_files_are_no_rows(tmp_path: Path) -> None:
    once = "name,time_us\na,1\n"
    (tmp_path / "t.csv").write_text(once + once)
    assert [item.name for item in load(tmp_path / "t.csv")] == ["a", "a"]
    assert [row["name"] for row in read_rows(tmp_path / "t.csv")] == ["a", "a"]


@pytest.mark.parametrize("sign", [",", ";", "\t"])
def test_cases_may_be_separated_as_spreadsheets_do(tmp_path: Path, sign: str) -> None:
    (tmp_path / "t.csv").write_text(f"op{sign}m\ngemm{sign}8\n")
    assert read_rows(tmp_path / "t.csv") == [{"op": "gemm", "m": "8"}]


def test_microseconds_come_out_as_they_went_in(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,time_us\na,100\nb,0.7\n")
    assert [entry["time_us"] for entry in document(load(tmp_path / "t.csv"))] == [100, 0.7]


@pytest.mark.parametrize(("text", "mark", "value"), [
    ("1,234.5", ".", 1234.5), ("12,34,567", ".", 1234567), ("1,5", ".", None), ("1.234,5", ",", 1234.5),
    ("2.4e7", ",", 2.4e7), ("1.5,2", ",", None), ("0,5", ",", 0.5),
])  # fmt: skip
def test_a_mark_that_separates_no_thousands_is_not_dropped(text: str, mark: str, value: float | None) -> None:
    assert number(text, mark) == value


@pytest.mark.parametrize(("text", "samples"), [
    ('name,time_us\na,"1,234.5"\n', [1234.5e-6]),  # one time, not two
    ("name;time_us\na;100,5\n", [100.5e-6]),
    ("name\ttime_ms\na\t0.5\n", [0.5e-3]),
    ("name,time_us\na,1 2 3\n", [1e-6, 2e-6, 3e-6]),
    ('name,samples\na,"[0.1, 0.2]"\n', [0.1, 0.2]),
])  # fmt: skip
def test_timings_of_a_table(tmp_path: Path, text: str, samples: list[float]) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert load_timings(tmp_path / "t.csv")["a"].samples == pytest.approx(samples)


def test_a_table_with_other_columns_says_which_it_needs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Name,Duration (us)\na,1\n")
    with pytest.raises(InputError, match=r"need a header with name and one of time,.*'Name,Duration"):
        load(tmp_path / "t.csv")
