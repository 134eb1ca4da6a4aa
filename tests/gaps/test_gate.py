"""The gate of a build: verdicts on generated samples, files good and bad."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, SchemaError
from ridgeline.core.intake import limits
from ridgeline.core.observation import Observation
from ridgeline.gaps import gate
from ridgeline.gaps.gate import FASTER, SAME, SLOWER, UNCLEAR, compare, load, read
from ridgeline.render.tables.gaps import gate_table as table
from strategies import law


def series(median: float, count: int = 20, noise: float = 0.01, seed: int = 1) -> list[float]:
    return list(median * np.exp(noise * np.random.default_rng(seed).standard_normal(count)))


def timings(samples: dict[str, list[float]], **conditions: Any) -> dict[str, gate.Timed]:
    return read([{"name": name, "samples": times, "conditions": conditions} for name, times in samples.items()])


def files(old: dict[str, list[float]], now: dict[str, list[float]], **options: Any) -> gate.Verdict:
    return compare(timings(old), timings(now), **options)


def only(old: list[float], now: list[float], **options: Any) -> gate.Item:
    (item,) = files({"k": old}, {"k": now}, **options).items
    return item


# -- verdicts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, SAME), (1.03, SAME), (1.10, SLOWER), (2.0, SLOWER), (0.97, SAME), (0.8, FASTER)]
)
def test_a_difference_counts_from_five_percent_on(factor: float, verdict: str) -> None:
    item = only(series(1e-3), series(1e-3 * factor, seed=2))
    assert item.verdict == verdict
    assert item.ratio == pytest.approx(factor, rel=0.02)
    assert item.low <= item.ratio <= item.high


def test_the_least_difference_can_be_chosen() -> None:
    old, now = series(1.0, noise=0.002), series(1.08, noise=0.002, seed=2)
    assert only(old, now, min_difference=0.02).verdict == SLOWER
    assert only(old, now, min_difference=0.1).verdict == SAME


def test_a_difference_that_noise_explains_is_not_a_regression() -> None:
    item = only(series(1.0, 8, 0.5, 3), series(1.3, 8, 0.5, 4))
    assert item.verdict == UNCLEAR
    assert "the samples scatter by" in item.why
    assert item.p_value is not None
    assert item.p_value > 0.01
    overlapping = only([1.0, 1.3, 1.31, 1.3, 1.32], [1.25, 1.25, 1.26, 1.25, 1.25])
    assert overlapping.verdict == UNCLEAR
    assert "is within the noise (p = " in overlapping.why


def test_one_slow_sample_does_not_make_a_regression() -> None:
    now = series(1.0, seed=2)
    now[3] = 50.0
    assert only(series(1.0), now).verdict == SAME


def test_too_few_samples_cannot_tell_and_only_a_strict_gate_minds() -> None:
    old, now = {"k": [1.0]}, {"k": [9.0]}
    loose, strict = files(old, now), files(old, now, strict=True)
    assert loose.items[0].verdict == UNCLEAR
    assert loose.items[0].why == "1 and 1 samples are too few for a verdict; take 5 of each, or several runs"
    assert (loose.passed, strict.passed) == (True, False)


def test_new_and_vanished_names_are_listed() -> None:
    verdict = files({"a": series(1.0), "gone": series(1.0)}, {"a": series(1.0), "added": series(1.0)})
    assert (verdict.new, verdict.vanished) == (("added",), ("gone",))
    assert verdict.passed
    assert verdict.sentence == "no regression; 1 unchanged, 1 new, 1 missing"
    text = table(verdict).text()
    assert "new: added" in text
    assert "missing: gone" in text
    assert not files({"a": [1.0] * 5, "gone": [1.0]}, {"a": [1.0] * 5}, strict=True).passed


def test_a_regression_fails_and_stands_first() -> None:
    old = {name: series(1e-3, seed=seed) for seed, name in enumerate("abc")}
    now = {**old, "b": series(1.5e-3), "c": series(0.5e-3)}
    verdict = files(old, now)
    assert not verdict.passed
    assert [row["name"] for row in table(verdict).rows] == ["b", "c", "a"]
    told = json.loads(json.dumps(to_document(verdict), allow_nan=False))
    assert told["passed"] is False
    assert {item["name"]: item["verdict"] for item in told["items"]} == {"a": SAME, "b": SLOWER, "c": FASTER}
    assert told["items"][1]["current_us"] == pytest.approx(1500, rel=0.02)
    assert told["sentence"].startswith("1 regression: b +50 % (p = ")
    assert told["sentence"].endswith("; 1 faster, 1 unchanged")


def test_runs_on_two_machines_are_told_apart() -> None:
    old = timings({"k": series(1.0)}, device="A100", load_before=1)
    now = timings({"k": series(1.0)}, device="H200", load_before=2)
    first, second = compare(old, now).notes
    assert first == "conditions differ: device was A100, is H200"
    assert second.startswith("1 run of each: run-to-run variation of 2 % or more is assumed")
    assert compare([old, old], now).notes == ("conditions differ: device was A100, is H200",)


samples = st.lists(st.floats(0.5, 2), min_size=2, max_size=30)


@law(40)
@given(samples, samples)
def test_swapping_the_files_swaps_the_verdict(one: list[float], two: list[float]) -> None:
    there, back = only(one, two), only(two, one)
    swapped = {SLOWER: FASTER, FASTER: SLOWER}
    assert back.verdict == swapped.get(there.verdict, there.verdict)
    assert back.ratio == pytest.approx(1 / there.ratio)


# -- files ----------------------------------------------------------------------------------------------------


def test_every_file_of_timings_that_ridgeline_writes_is_read(tmp_path: Path) -> None:
    seen = Observation("gemm", "gemm", (1e-3, 2e-3, 3e-3), conditions={"cpu": "x"})
    documents = [
        {"schema": 1, "ridgeline": "0.1", "observations": [to_document(seen)]},
        [to_document(seen)],
        to_document(seen),
        {"items": [{"name": "gemm", "samples": [1e-3, 2e-3, 3e-3]}]},
        [{"name": "gemm", "time_us": 2000, "times_us": [1000, 2000, 3000]}],
        {"items": [{"name": "gemm", "measured_us": 2000}]},
        {"items": [{"name": "gemm", "measured_us": 2000, "samples": 1}]},  # `reconcile --json` counts its samples
        {"items": [{"name": "gemm", "measured_us": 2000, "samples": 3, "times_us": [1000, 2000, 3000]}]},
    ]
    for document in documents:
        path = tmp_path / "times.json"
        path.write_text(json.dumps(document))
        assert load(path)["gemm"].median == pytest.approx(2e-3)
    assert compare(read(documents[0]), load(path)).items[0].name == "gemm"


def test_a_name_that_comes_again_is_told_by_its_turn() -> None:
    rows = [{"name": "mm", "time_us": value} for value in (1, 2, 3)]
    assert list(read(rows)) == ["mm", "mm (2)", "mm (3)"]


def test_names_of_one_kernel_are_numbered_past_names_that_look_so() -> None:
    rows = [{"name": name, "time_us": 1} for name in ("mm (2)", "mm", "mm", "mm (3)", "mm")]
    assert list(read(rows)) == ["mm (2)", "mm", "mm (3)", "mm (3) (2)", "mm (4)"]


def test_all_complaints_of_a_file_come_at_once() -> None:
    entries = [{"name": "a", "time_us": 1}, {"name": "", "time_us": 1}, {"name": "c", "time_us": -1}, 7]
    with pytest.raises(SchemaError, match="3 mistakes found") as caught:
        read(entries, "old.json")
    assert [text.partition(":")[0] for text in caught.value.complaints] == [
        "entry 2, name",
        "entry 3, time_us",
        "entry 4",
    ]


def test_names_are_clean_and_conditions_are_those_that_must_agree() -> None:
    ((name, timed),) = read(
        [{"name": "a\x1b[31m\udc80", "time_us": 1, "conditions": {"device": "x\x07", "load": float("nan")}}]
    ).items()
    assert (name, timed.conditions) == ("a\ufffd", {"device": "x\ufffd"})


def test_more_samples_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_given", {"samples": 3})
    with pytest.raises(InputError, match=r"'a' is over the limit of 3 .*--limit samples=6"):
        read([{"name": "a", "samples": [1.0] * 4}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ('{"items": [', "is not valid JSON"),
        ("{}", "no list of timings"),
        ("3", "no list of timings"),
        ('{"items": {}}', "no list of timings"),
        ('{"items": []}', "holds no timings"),
        ('{"schema": 99, "items": []}', "schema: is 99, newer than"),
        ('{"schema": "x", "items": []}', "schema: is 'x'"),
        ('[{"time_us": 3}]', "entry 1, name: is missing"),
        ('["gemm"]', "entry 1: must be a table with a name and its times, found 'gemm'"),
        ('[{"name": "k"}]', "entry 1: has no times; give one of samples, times_us"),
        ('[{"name": "k", "samples": []}]', "entry 1: has no times"),
        ('[{"name": "k", "samples": [1, "2"]}]', "entry 1, samples: entry 2 is '2'; it is a number from 1e-15"),
        ('[{"name": "k", "samples": [1, 0]}]', "entry 1, samples: entry 2 is 0; it is a number"),
        ('[{"name": "k", "samples": [1e-320]}]', "it is a number from 1e-15"),
        ('[{"name": "k", "samples": [1e300]}]', "it is a number from 1e-15"),
        (f'[{{"name": "k", "samples": [1{"0" * 400}]}}]', "is a number with too many digits; it is"),
        ('[{"name": "k", "time_us": NaN}]', "time_us: entry 1 is nan; it is a number"),
        ('[{"name": "k", "samples": [[1, 2]]}]', "entry 1 is a list of 2"),
        ('[{"name": ["k"], "time_us": 1}]', "entry 1, name: must be a text, found a list of 1"),
        ('[{"name": "k", "time_us": 1, "conditions": {"device": 1e999}}]', "conditions.device: is inf"),
        ('[{"name": "k", "time_us": true}]', "time_us: entry 1 is True; it is a number"),
    ],
)
def test_a_file_that_holds_no_timings_says_so(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load(path)


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file in UTF-8"):
        load(tmp_path / "bytes.json")


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InputError, match="no common names: baseline has a, current has b"):
        files({"a": [1.0]}, {"b": [1.0]})
    with pytest.raises(InputError, match="minimum change"):
        files({"a": [1.0]}, {"a": [1.0]}, min_difference=-0.1)
    with pytest.raises(InputError, match="maximum p-value"):
        files({"a": [1.0]}, {"a": [1.0]}, max_p_value=0.0)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_tables_of_timings_are_read(suffix: str, tmp_path: Path) -> None:
    """Rows of one name are its samples; a cell of samples holds several."""
    path = tmp_path / f"times{suffix}"
    if suffix == ".csv":
        path.write_text("name,time_us,note\nsoftmax,100,x\nsoftmax,110,\nsoftmax,120,\ngemm,5.5,\n")
    else:
        rows = [{"name": "softmax", "time_us": time} for time in (100, 110, 120)] + [{"name": "gemm", "time_us": 5.5}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    timings = load(path)
    assert {name: timed.samples for name, timed in timings.items()} == {
        "softmax": pytest.approx((1e-4, 1.1e-4, 1.2e-4)),
        "gemm": pytest.approx((5.5e-6,)),
    }
    wide = tmp_path / "wide.csv"
    wide.write_text('name,samples\nsoftmax,1e-4 1.1e-4 1.2e-4\ngemm,"[5.5e-6, 5.6e-6]"\n')
    assert load(wide)["softmax"].samples == pytest.approx((1e-4, 1.1e-4, 1.2e-4))
    assert load(wide)["gemm"].samples == pytest.approx((5.5e-6, 5.6e-6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no timings; give each entry or row a name"),
        ("name,time_us\n", "holds no timings; give each entry or row a name"),
        ("name,time_us\nk,fast\n", "row 1, column time_us: entry 1 is 'fast'; it is a number"),
        ("name,time_us\nk,-1\n", "row 1, column time_us: entry 1 is -1.0; it is a number"),
        ("name,time_us\nk,1\nk,nan\n", "row 2, column time_us: entry 1 is 'nan'"),
        ("name,samples\nk,1 2\nk,1 -2\n", "row 2, column samples: entry 2 is -2.0"),
        ("name,time_us\nk,\n", "row 1: has no times"),
        ("kernel,time_us\nk,1\n", "row 1, column name: is missing"),
    ],
)
def test_a_table_without_timings_says_so(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load(path)


def test_the_first_line_names_the_regressions() -> None:
    old = {name: series(1e-3, seed=seed) for seed, name in enumerate("abcdef")}
    now = {name: [factor * time for time in old[name]] for name, factor in zip("abcdef", (1.5, 1, 1.3, 1.2, 1.4, 0.5), strict=True)}  # fmt: skip
    verdict = files(old, now)
    assert re.fullmatch(r"4 regressions: a \+50 % \(p = \S+\), e \+40 % \(p = \S+\), c \+30 % \(p = \S+\), and 1 more; 1 faster, 1 unchanged", verdict.sentence)  # fmt: skip
    assert files(old, old).sentence == "no regression; 6 unchanged"
    assert files({"k": [1.0]}, {"k": [9.0]}, strict=True).sentence == "no verdict; 1 inconclusive (failed: strict)"
