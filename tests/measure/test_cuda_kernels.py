"""The command that times kernels: its files, its limits, its messages."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from fake_bench import FakeBench, cases

from ridgeline.core.errors import InputError
from ridgeline.measure.cuda import cases as shapes
from ridgeline.measure.cuda import kernels, timing
from ridgeline.measure.cuda.conditions import Watch


def test_without_a_gpu_there_is_one_message(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(timing, "package", lambda name: None)
    assert kernels.main(["--out", str(tmp_path / "new")]) == 2
    assert "torch is not installed" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_writes_tables_and_conditions(tmp_path: Any, monkeypatch: Any) -> None:
    class Everything(FakeBench):
        def build(self, case: shapes.Case) -> Any:
            return lambda: 4

    watch = Watch(None)
    monkeypatch.setattr(kernels, "open_gpu", lambda: (Everything(), watch, {"device": "a GPU"}))
    assert kernels.main(["--out", str(tmp_path), "--quick", "--count", "70", "--repeats", "2"]) == 0
    wanted = {"calibration": len(shapes.calibration_cases(quick=True)), "random": 70}
    for name, count in wanted.items():
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == count
        assert {row["time_us"] for row in found} == {"12"}  # 4 + 8
    told = json.loads((tmp_path / "conditions.json").read_text())
    assert told["device"] == "a GPU"
    assert told["done"] == wanted


def test_the_command_times_a_table_that_it_wrote(tmp_path: Any, monkeypatch: Any) -> None:
    asked: list[shapes.Case] = []

    class Asked(FakeBench):
        def build(self, case: shapes.Case) -> Any:
            asked.append(case)
            return lambda: 4

    watch = Watch(None)
    monkeypatch.setattr(kernels, "open_gpu", lambda: (Asked(), watch, {"device": "a GPU"}))
    assert kernels.main(["--out", str(tmp_path), "--what", "random", "--count", "60", "--repeats", "2"]) == 0
    first = list(asked)
    asked.clear()
    again = ["--out", str(tmp_path / "again"), "--cases", str(tmp_path / "random.csv"), "--repeats", "2"]
    assert kernels.main(again) == 0
    assert asked == first
    assert json.loads((tmp_path / "again" / "conditions.json").read_text())["done"] == {"cases": 60}


@pytest.mark.parametrize("text", ["", "op,m\ngemm,4\n", "op,dtype,m\ngemm,bf16,four\n", "op,dtype\n"])
def test_a_table_of_no_cases_gets_one_message(text: str, tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(text)
    assert kernels.main(["--out", str(tmp_path / "new"), "--cases", str(path)]) == 2
    assert "cases.csv" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_keeps_what_is_done_when_time_is_up(tmp_path: Any) -> None:
    path = tmp_path / "part.csv"
    told: list[str] = []
    assert kernels.collect(cases(1, 2), path, FakeBench(), float("-inf"), 2, told.append) == 0
    assert not path.exists()
    assert kernels.collect(cases(1, 2), path, FakeBench(refuses=2), float("inf"), 2, told.append) == 2
    assert told == ["part.csv: 2 of 2, 1 without a time"]
    assert len(path.read_text().splitlines()) == 3


def test_a_lost_device_ends_the_timing_and_keeps_what_was_timed(tmp_path: Any) -> None:
    class Lost(FakeBench):
        def clear(self) -> None:
            raise InputError("the GPU stopped answering")

    path = tmp_path / "part.csv"
    with pytest.raises(InputError, match="stopped answering"):
        kernels.collect(cases(*range(1, 200)), path, Lost(), float("inf"), 2, lambda text: None)
    assert 2 < len(path.read_text().splitlines()) < 199
