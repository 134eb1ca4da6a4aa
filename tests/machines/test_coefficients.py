"""Fitted numbers as files: in and out, every complaint, what is shipped, what GPUs borrow, and how good it is."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.dtypes import dtype
from ridgeline.core.families import FORMULAS, Key, formula, nearby
from ridgeline.core.fitted import Fitted
from ridgeline.core.intake import Door, clean
from ridgeline.core.machine import Machine
from ridgeline.machines import coefficients as files
from ridgeline.machines import files as machines
from ridgeline.machines import schema
from ridgeline.machines import write as save
from ridgeline.machines.load import load
from ridgeline.prediction import score as evaluate
from ridgeline.prediction.table import Defaults
from ridgeline.programs.ops import OPS
from strategies import COLLECTIVES, law

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
NUMBERS = st.floats(1e-12, 1e12, allow_nan=False)


# -- in and out --------------------------------------------------------------------------------------------------------


def test_timings_that_formats_share_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "b m n k weight\nreach 1 1 1 1\n1 2 3 4 0.5"
    row = Fitted({"launch": 2e-6}, 0.1, 0.2, 0.9, 1.1, 10, "a test", nearby=text)
    keys = [Key.parse(f"gemm.{name}") for name in ("bf16", "fp16", "fp32")]
    fitted = {keys[0]: row, keys[1]: row, keys[2]: replace(row, nearby="")}
    files.write(tmp_path / "mine.json", {"fitted": fitted})
    with ZipFile(tmp_path / "mine.nearby.zip") as archive:
        stored = {name: archive.read(name).decode() for name in archive.namelist()}
    assert stored == {"gemm.bf16": text, "gemm.fp16 same as gemm.bf16": ""}
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    assert files.of_machine("mine") == fitted


def test_a_table_of_timings_is_written_by_columns_and_read_by_columns_and_by_cases() -> None:
    by_case = nearby.read("m n weight\nreach 1 2\n300 7 0.5\n20 123456 -0.25")
    text = by_case.text()
    assert text == "columns m n weight\nreach 1 2\n20 300\n123500 7\n-0.250 0.500"
    again = nearby.read(text)
    assert again.names == ("m", "n")
    assert again.reach.tolist() == [1, 2]
    assert again.text() == text
    sizes = {"m": 100.0, "n": 100.0}
    assert again.correction(sizes) == pytest.approx(by_case.correction(sizes), abs=1e-3)


@st.composite
def tables(draw: st.DrawFn) -> dict[Key, Fitted]:
    found = {}
    for name in draw(st.lists(st.sampled_from(sorted(FORMULAS)), min_size=1, max_size=3, unique=True)):
        row = Fitted(
            coefficients={
                key: draw(st.floats(bounds.low or 1e-12, bounds.high))
                for key, bounds in FORMULAS[name].coefficients.items()
                if draw(st.booleans())
            },
            error=draw(NUMBERS),
            p90=draw(NUMBERS),
            low=draw(st.floats(1e-6, 1.0)),
            high=draw(st.floats(1.0, 1e6)),
            cases=draw(st.integers(1, 10**9)),
            source=draw(st.text(min_size=1).map(clean).filter(str.strip)),
            ranges={key: (1.0, draw(st.floats(1.0, 1e12))) for key in ("m", "n") if draw(st.booleans())},
            borrowed=draw(st.booleans()),
        )
        found[Key(name, "bf16", op="op", backend="lib-1.0")] = row
    return found


@law(30)
@given(tables())
def test_a_catalog_file_is_read_again_and_never_borrowed(given: dict[Key, Fitted]) -> None:
    """Who borrows says so itself; a file only holds the numbers."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mine.json"
        files.write(path, {"fitted": given, "hopper": given})
        assert set(json.loads(path.read_text(encoding="utf-8"))) == {"fitted", "hopper"}
        for table in ("fitted", "hopper"):
            door = Door(table)
            found = files.read(json.loads(path.read_text(encoding="utf-8"))[table], door)
            door.close()
            assert found == {key: replace(row, borrowed=False) for key, row in given.items()}


def test_what_is_lent_beyond_an_architecture_is_stored_where_it_differs(tmp_path: Path) -> None:
    within = keyed({"gemm.bf16": toy(error=0.1), "moe.bf16": toy(error=0.1)})
    beyond = {key: replace(row, error=0.2) for key, row in within.items()} | keyed({"conv.fp32": toy(error=0.3)})
    path = tmp_path / "lent.json"
    files.write(path, {"within hopper": within, "beyond hopper": beyond})
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["beyond hopper"]["moe.bf16"] == {"error": 0.2}
    assert files._fitted(path, "within hopper") == within
    assert files._fitted(path, "beyond hopper") == beyond


def test_a_machine_keeps_its_own_numbers_through_a_file_and_leaves_the_borrowed_ones() -> None:
    own = keyed({"gemm.bf16": toy(), "stream.fp32@lib": toy(error=0.2)})
    one = replace(rl.machine("t4"), fitted={**own, Key("moe", "bf16"): toy(borrowed=True)})
    again = schema.read(save.text(one), "a file")
    assert dict(again.fitted) == own
    told = to_document(rl.machine("h200-sxm"))["fitted"]
    assert told["gemm.bf16"]["coefficients"]["launch"] > 0
    assert not any(row["borrowed"] for row in told.values())


def keyed(rows: dict[str, Fitted]) -> dict[Key, Fitted]:
    return {Key.parse(key): row for key, row in rows.items()}


def toy(**change: Any) -> Fitted:
    known: dict[str, Any] = {"coefficients": {"launch": 1e-6}, "error": 0.1, "p90": 0.3, "low": 0.8, "high": 1.2}
    return Fitted(**(known | {"cases": 20, "source": "a test"} | change))


HEAVY = "b m n k weight\nreach 1 1 1 1\n1 1 1 1 9e9"
GOOD: dict[str, Any] = {
    **{"coefficients": {"launch": 1e-6}, "error": 0.1, "p90": 0.3, "low": 0.8, "high": 1.2, "cases": 20},
    **{"source": "a test", "ranges": {"m": [1, 16]}},
}
FAULTS: list[tuple[str, dict[str, Any] | Any, str]] = [
    ("gemm.bf16", 3, "must be a table"),
    (
        "gemm.bf16",
        {name: value for name, value in GOOD.items() if name not in ("error", "cases")},
        "has no cases, error",
    ),
    ("gemm.bf16", {}, "has no coefficients, source, cases, error, p90, low, high"),
    ("gem.bf16", GOOD, "no kernel family 'gem'"),
    ("gem-odd.bf16", GOOD, "no kernel family 'gem'"),
    ("gemm.bf17", GOOD, "unknown dtype 'bf17'"),
    ("gemm.bf16-int9@lib", GOOD, "unknown dtype 'int9'"),
    ("gemm", GOOD, "'gemm' is no key of coefficients"),
    ("gemm-.bf16", GOOD, "is written 'gemm.bf16'"),
    ("gemm.bf16", GOOD | {"colour": "red"}, "unknown key 'colour'"),
    ("gemm.bf16", GOOD | {"coefficients": {"launch": 10**400}}, "is a number with too many digits"),
    *(
        ("gemm.bf16", GOOD | {"nearby": value}, "nearby: ")
        for value in (
            3,
            "m",
            "m missed\n1 0.1",
            "m n k b missed\n1 1 1 1 9e9",
            "\x1b[31m missed\n1",
            "m missed\n1 nan",
            "columns b m n k weight\nreach 1 1 1 1\n1\n1\n1\n1",
            "columns b m n k weight\nreach 1 1 1 1\n1 2\n1\n1\n1\n1",
            HEAVY,
        )
    ),
    (
        "gemm.bf16",
        GOOD | {"nearby": "forest c_in\n-1\n\n1\n-1\n\n0"},
        "nearby: must be a table of timings: a forest is of conv",
    ),
    ("conv.nchw.bf16", GOOD | {"nearby": "tree m\n-1\n\n1"}, "nearby: must be a table of timings: a tree is of matrix"),
    *(
        ("conv.nchw.bf16", GOOD | {"nearby": value}, "nearby: must have ")
        for value in ("forest c_in\n-1\n\n1", "forest m\n5\n\n1\n-1\n\n0", "forest c_in\n-1\n\n1\n-1\n\n9")
    ),
    ("gemm.bf16", GOOD | {"coefficients": [1, 2]}, "coefficients: must be a table"),
    ("gemm.bf16", GOOD | {"coefficients": {"lunch": 1.0}}, "coefficients: unknown key 'lunch'; it may have "),
    ("reduce.bf16", GOOD | {"coefficients": {"compute": 1.0}}, "coefficients: unknown key 'compute'; it may have "),
    *(
        ("gemm.bf16", GOOD | {"coefficients": {"launch": value}}, "coefficients.launch: is ")
        for value in (0, -1.0, "1 us", True, float("nan"), float("inf"))
    ),
    *(
        ("gemm.bf16", GOOD | {name: -0.1}, f"{name}: is -0.1; it is a number from")
        for name in ("error", "p90", "low", "high")
    ),
    ("gemm.bf16", GOOD | {"error": "a tenth"}, "error: is 'a tenth'; it is a number from"),
    ("gemm.bf16", GOOD | {"low": 1.1}, "low: is 1.1; it is a number from 1e-12 to 1"),
    ("gemm.bf16", GOOD | {"high": 0.9}, "high: is 0.9; it is a number from 1 to 1e+12"),
    *(
        ("gemm.bf16", GOOD | {"cases": value}, "it is a whole number from 1 to 1e+09")
        for value in ("many", 1.5, 0, -3, True)
    ),
    *(("gemm.bf16", GOOD | {"source": value}, "source: ") for value in ("", " ", 3)),
    ("gemm.bf16", GOOD | {"borrowed": "yes"}, "borrowed: must be true or false"),
    ("gemm.bf16", GOOD | {"ranges": [1, 2]}, "ranges: must be a table"),
    *(
        ("gemm.bf16", GOOD | {"ranges": {"m": value}}, "ranges.m: ")
        for value in (3, [1], [1, 2, 3], [0, 1], ["1", 2], [16, 1])
    ),
]


@pytest.mark.parametrize(("key", "row", "told"), FAULTS)
def test_every_fault_is_one_complaint(key: str, row: Any, told: str) -> None:
    door = Door("a file")
    read = files.read({key: row, "stream.bf16": GOOD}, door)
    assert Key("stream", "bf16") in read
    (complaint,) = door.complaints
    assert complaint.startswith(f'fitted."{key}"')
    assert told in complaint


def test_a_machine_file_hears_all_its_faults_at_once() -> None:
    text = save.text(replace(rl.machine("t4"), fitted={}))
    bad = '\n[fitted."gem.bf16"]\nsource = "x"\n[fitted."gemm.bf16"]\nsource = "x"\n'
    with pytest.raises(rl.RidgelineError) as caught:
        schema.read(text + bad, "mine.toml")
    assert str(caught.value).count('fitted."') == 2


# -- what is shipped ---------------------------------------------------------------------------------------------------

SHIPPED = sorted(files.FOLDER.glob("*.json"))


@cache
def shipped(path: Path) -> dict[str, dict[str, Any]]:
    """Tables of a file: one called `fitted`, or one per architecture in the defaults."""
    return files._tables(path)


def test_there_are_numbers_to_ship_and_every_file_is_read_by_somebody() -> None:
    names = {path.stem for path in SHIPPED} - {files.DEFAULTS.stem}
    assert {"h200-sxm", "h100-sxm", "a100-sxm-80gb", "v100-pcie-32gb", "t4", "l4"} <= names
    assert names <= set(machines.names())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_number_is_in_order(path: Path) -> None:
    for table, rows in shipped(path).items():
        door = Door(path.name)
        found = files.read(rows, door)
        door.close()
        assert found
        assert found == files._fitted(path, table)  # which does without the door
        for key, row in found.items():
            at = f"{path.stem} {table} {key}"
            coefficients = formula(key).coefficients
            for name in key.dtypes:
                dtype(name)
            assert row.cases >= 12, at
            assert len(row.source) > 20, at
            assert 0 < row.error <= row.p90, at
            assert row.low <= 1 <= row.high, at
            for coefficient, value in row.coefficients.items():
                bounds = coefficients[coefficient]
                assert bounds.low * 0.999 <= value <= bounds.high * 1.001, f"{at} {coefficient}"
            needed = {name for name, one in coefficients.items() if not one.optional}
            assert needed <= set(row.coefficients), at


@pytest.mark.parametrize("path", [path for path in SHIPPED if path != files.DEFAULTS], ids=lambda path: path.stem)
def test_a_machine_of_the_catalog_carries_its_file(path: Path) -> None:
    one = rl.machine(path.stem)
    own = {str(key) for key, row in one.fitted.items() if not row.borrowed}
    assert own == set(shipped(path)["fitted"])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_numbers_cite_timings_of_their_own_format(path: Path) -> None:
    """Timings of eager fp32 calls say nothing of other formats; and only their launches were the host's."""
    for rows in shipped(path).values():
        for key, row in rows.items():
            if "eager fp32" in row["source"]:
                assert Key.parse(key).dtype == "fp32", key


@pytest.mark.parametrize("path", [path for path in SHIPPED if path != files.DEFAULTS], ids=lambda path: path.stem)
def test_the_default_path_starts_about_as_fast_as_the_backends_it_stands_for(path: Path) -> None:
    rows = shipped(path)["fitted"]
    for key, row in rows.items():
        known = [other["coefficients"]["launch"] for name, other in rows.items() if name.startswith(f"{key}@")]
        if known and "eager" not in row["source"] and "by ridgeline" not in row["source"]:
            assert min(known) / 2 <= row["coefficients"]["launch"] <= max(known) * 2, key


# -- what GPUs borrow --------------------------------------------------------------------------------------------------


def gpus() -> list[str]:
    return [name for name in machines.names() if load(name).kind == "gpu"]


def format_of(one: Machine) -> str:
    return next(name for name in ("bf16", "fp16", "fp32") if name in one.dtypes())


@pytest.mark.parametrize("name", gpus())
def test_every_gpu_expects_a_time_of_every_op_from_numbers(name: str) -> None:
    """Own or borrowed, and borrowed ones say so; an op without a kernel family has the flat form."""
    one = load(name)
    without = []
    for op in OPS.values():
        if op.name in COLLECTIVES:
            continue
        sizes = {key: 8 for key, param in op.params.items() if param.required and param.kind in ("Size", "Count")}
        sizes |= {"topk": 2} if op.name == "moe" else {}
        work = op(**sizes, **({"dtype": format_of(one)} if "dtype" in op.params else {}))
        step = rl.predict(work, one).expected[0]
        assert step.time > 0
        told = str(step.confidence)
        if not step.kernels:
            without.append((op.name, bool(work.kernels)))
            assert "uncalibrated" in told
            continue
        lent = [kernel.selected.fitted.borrowed for kernel in step.kernels]
        assert ("transferred from other machines (" in told) == any(lent)
        if any(line.startswith("calibrated (") for line in told.split("; ")):
            assert not all(lent)
    rare = ("attention", "moe") if format_of(one) == "fp32" else ()  # libraries run these in 16 bits
    assert not [op for op, known in without if known and op not in rare]


def test_a_machine_that_is_no_gpu_borrows_nothing() -> None:
    for name in ("xeon-8480plus", "tpu-v5e"):
        assert load(name).fitted == {}


def test_own_numbers_go_before_those_of_the_architecture_and_those_before_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lent = {
        "within hopper": {"gemm.bf16": toy(error=0.2), "moe.bf16": toy(error=0.2), "conv.bf16": toy(error=0.2)},
        "beyond hopper": {"gemm.bf16": toy(error=0.4), "moe.bf16": toy(error=0.4), "conv.bf16": toy(error=0.4)},
        "beyond ampere": {"gemm.bf16": toy(error=0.3), "moe.bf16": toy(error=0.3), "conv.fp32": toy(error=0.3)},
    }
    monkeypatch.setattr(files, "_fitted", lambda path, table: keyed(lent.get(table, {})))
    one = Machine("mine", kind="gpu", architecture="hopper-refresh", fitted=keyed({"gemm.bf16": toy()}))
    found = files.with_defaults(one).fitted
    assert {str(key): (row.error, row.borrowed) for key, row in found.items()} == {
        "gemm.bf16": (0.1, False),
        "moe.bf16": (0.2, True),
        "conv.bf16": (0.2, True),
        "conv.fp32": (0.3, True),
    }
    stranger = files.with_defaults(replace(one, architecture="unheard-of")).fitted
    assert {str(key): row.error for key, row in stranger.items()} == {
        "gemm.bf16": 0.1,
        "moe.bf16": 0.3,
        "conv.fp32": 0.3,
        "conv.bf16": 0.4,
    }
    assert files.with_defaults(replace(one, kind="cpu")).fitted == one.fitted


# -- how good it is ----------------------------------------------------------------------------------------------------


@cache
def rows(name: str) -> list[dict[str, str]]:
    path = DATA / name
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(text.decode().splitlines()))


def judge(name: str) -> evaluate.Evaluation:
    return evaluate.evaluate(rows(name), Defaults(load("h200-sxm"), load, {}, {}))


@pytest.fixture(scope="module")
def judged() -> evaluate.Evaluation:
    return judge("h200-test.csv")


RESULTS = {"time_us", "best_us", "span_us", "spread", "kernels", "kernel_name", "sm_clock", "power"}


def shapes(name: str) -> list[tuple[tuple[str, str], ...]]:
    return [tuple(sorted((key, row[key]) for key in row if row[key] and key not in RESULTS)) for row in rows(name)]


TEST_SETS = (
    "test.csv",
    "further-test.csv",
    "smooth-test.csv.gz",
    "programs-test.csv.gz",
    "layers.csv",
    "projections.csv",
    "products3-test.csv.gz",
    "products4-test.csv.gz",
    "convolutions3-test.csv.gz",
    "usual-test.csv.gz",
    "popularlayers-test.csv.gz",
    "batched-test.csv.gz",
    "popular-test.csv.gz",
    "walks-test.csv.gz",
    "rows-test.csv.gz",
    "fresh-test.csv.gz",
    "typical-test.csv.gz",
    "usualops-test.csv.gz",
    "unseen-test.csv.gz",
)


def test_no_shape_of_a_test_set_was_fitted_to() -> None:
    """In one test, because each worker that has a part of it would read all timings."""
    fitted = {shape for path in DATA.glob("h200-*calibration.csv.gz") for shape in shapes(path.name)}
    assert len(fitted) > 50000
    for name in TEST_SETS:
        tested = shapes(f"h200-{name}")
        assert len(tested) >= 500, name
        assert not fitted & set(tested), name
        assert len(set(tested)) == len(tested), name


def test_every_case_of_the_test_set_is_judged(judged: evaluate.Evaluation) -> None:
    assert judged.failed == 0
    assert len(judged.pooled.measured) == len(rows("h200-test.csv"))
    others = [row for row in judged.rows if not str(row["confidence"]).startswith("calibrated (")]
    assert len(others) <= 2  # of variants that only another op was timed in


def test_the_pooled_error_on_shapes_never_fitted_to(judged: evaluate.Evaluation) -> None:
    score = judged.pooled.errors()
    assert score.median <= 0.06
    assert score.p90 <= 0.23
    assert abs(score.signed) <= 0.02
    for method in evaluate.METHODS[1:]:
        assert score.median < 0.3 * judged.pooled.errors(method).median, method


MOST = {"stream": 0.03, "rows": 0.05, "attention": 0.055, "attention decode": 0.07, "gemm bf16": 0.06, "conv": 0.15}


def test_the_error_of_a_family(judged: evaluate.Evaluation) -> None:
    found = {one.family: one.errors().median for one in judged.families}
    assert not {family: found[family] for family, most in MOST.items() if found[family] > most}


@pytest.mark.parametrize(("name", "family", "most"), [("layers", "conv", 0.11), ("projections", "gemm bf16", 0.05)])
def test_the_error_on_what_networks_ask_for(name: str, family: str, most: float) -> None:
    found = judge(f"h200-{name}.csv")
    (one,) = [one for one in found.families if one.family == family]
    assert one.errors().median <= most
    assert 0.75 <= found.pooled.inside.mean() <= 0.90


def test_the_interval_holds_what_it_promises(judged: evaluate.Evaluation) -> None:
    assert 0.75 <= judged.pooled.inside.mean() <= 0.90
    for one in judged.families:  # a hundred cases leave an interval of 80 % some four per cent either way
        if len(one.inside) >= 100:
            assert 0.72 <= one.inside.mean() <= 0.93, one.family


def test_no_expected_time_beats_its_floor(judged: evaluate.Evaluation) -> None:
    assert all(row["time_us"] >= row["floor_us"] for row in judged.rows)
    assert all(row["low_us"] <= row["time_us"] <= row["high_us"] for row in judged.rows)


def test_the_expected_time_of_a_case_does_not_depend_on_its_neighbours(judged: evaluate.Evaluation) -> None:
    one, random = load("h200-sxm"), np.random.default_rng(0)
    for place in random.choice(len(judged.rows), 60, replace=False):
        alone = evaluate.evaluate([rows("h200-test.csv")[place]], Defaults(one, load, {}, {})).rows[0]
        assert alone["time_us"] == pytest.approx(judged.rows[place]["time_us"], rel=1e-9)
        assert alone["confidence"] == judged.rows[place]["confidence"]
