"""Importers: what a file says is what is observed; what cannot be read is one clear message."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ridgeline.core import tabular
from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, SchemaError
from ridgeline.core.observation import Observation
from ridgeline.profilers import commands
from ridgeline.profilers import load as observe
from strategies import law

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Every file in a folder named after an importer.
FILES = {
    tool: sorted(path.name for path in (FIXTURES / tool).iterdir() if path.name != "README.md")
    for tool in observe.importers()
    if (FIXTURES / tool).is_dir()
}
EVERY = [(tool, FIXTURES / tool / name) for tool, names in FILES.items() for name in names]


def test_every_module_that_recognises_a_file_is_a_format() -> None:
    """Modules and packages of the folder alike, found by listing it; plain tables are asked last."""
    importers = observe.importers()
    assert {"advisor", "jax_profiler", "likwid", "ncu", "perf", "rocprof", "torch_profiler", "plain"} <= set(importers)
    assert list(importers)[-1] == "plain"
    assert all(callable(module.read) for module in importers.values())
    assert not set(importers) & {"commands", "live", "load", "profile", "self_check"}


# The collection -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "path"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_each_recorded_file_is_recognised_from_its_content(tool: str, path: Path, tmp_path: Path) -> None:
    unnamed = tmp_path / "file"
    unnamed.write_bytes(path.read_bytes())
    found = observe.load(unnamed)
    assert found
    assert {item.tool for item in found} == {tool}
    claims = [name for name, module in observe.importers().items() if module.recognises(tabular.head(unnamed), unnamed)]
    assert claims == [tool]  # no other format would take it


@pytest.mark.parametrize(("tool", "path"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_compressed_and_recoded_files_read_the_same(tool: str, path: Path, tmp_path: Path) -> None:
    plain, packed, wide = (tmp_path / name / path.name for name in ("plain", "packed", "wide"))
    for place in (plain, packed, wide):
        place.parent.mkdir()
    plain.write_bytes(path.read_bytes())
    packed.write_bytes(gzip.compress(path.read_bytes()))
    wide.write_text(path.read_text(encoding="utf-8"), encoding="utf-16")
    expected = observe.load(plain)
    assert observe.load(packed) == expected
    assert observe.load(wide) == expected
    marked = tmp_path / path.name
    marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert observe.load(marked) == expected


def test_formats_are_the_files_of_the_folder() -> None:
    assert set(FILES) <= set(observe.formats())
    assert list(observe.formats())[-1] == "plain"  # it would take anything with a name and a time
    assert "commands" not in observe.formats()
    assert all(observe.formats().values())


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = FIXTURES / "plain" / "kernels.csv"
    assert observe.load(path, as_="plain") == observe.load(path)
    with pytest.raises(InputError, match="likwid"):
        observe.load(path, as_="likwd")
    with pytest.raises(InputError, match="no tables of likwid-perfctr"):
        observe.load(path, as_="likwid")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"hello world\n", "starts with 'hello world'; `ridgeline import --help` lists the formats$"),
        (b'{"a":', r"is not complete JSON \(line 1 column 6\); `ridgeline import --help` lists the formats$"),
        (b'{"a": b}', r"is not valid JSON: Expecting value \(line 1 column 7\)"),
        (b'{"a": 1}', "has no known format: it starts with"),
        (bytes(range(256)) * 40, "binary data"),
        (b"name,colour\na,red\n", "has no known format"),
        (gzip.compress(b"name,time_us\na,1\n", mtime=0)[:-12], "is cut off"),
        (b"name,time_us\n", "has no timings"),
    ],
)
def test_what_cannot_be_read_is_one_clear_message(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        observe.load(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_folders_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        observe.load(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        observe.load(tmp_path / "none.csv")


@pytest.mark.parametrize(("tool", "path"), EVERY, ids=lambda value: getattr(value, "name", value))
def test_the_document_reads_back(tool: str, path: Path, tmp_path: Path) -> None:
    found = observe.load(path)
    file = tmp_path / "import.json"
    file.write_text(json.dumps(observe.document(found)), encoding="utf-8")
    again = observe.load(file)
    assert [item.samples for item in again] == [pytest.approx(item.samples) for item in found]
    for one, other in zip(found, again, strict=True):
        for field in (
            "name",
            "kernel",
            "flops",
            "bytes",
            "counters",
            "defined",
            "path",
            "notes",
            "tool",
            "conditions",
            "settings",
        ):
            assert getattr(other, field) == getattr(one, field), field


def test_absent_stays_absent_in_the_document() -> None:
    (entry,) = observe.document([Observation("step", "step", (2e-6,), flops={"tensor.bf16": 0.0})])
    assert entry == {"name": "step", "time_us": pytest.approx(2.0), "flops": {"tensor.bf16": 0.0}, "bytes": {}, "tool": "ridgeline", "conditions": {}}  # fmt: skip


# Numbers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["1.234,56"], ","),
        (["1,234.56"], "."),
        (["1.234.567", "8"], ","),
        (["0,5"], ","),
        (["2130336.727273"], "."),
        (["1,024", "n/a"], "."),  # tells nothing: English
        (["1.024", "12,5", "7"], ","),
        ([], "."),
    ],
)
def test_decimal_marks_show_in_the_numbers(cells: list[str], mark: str) -> None:
    assert tabular.decimal_mark(cells) == mark


@given(st.floats(0, 1e15, allow_nan=False).map(lambda value: round(value, 6)))
def test_both_ways_of_writing_a_number_read_the_same(value: float) -> None:
    english = f"{value:,.6f}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert tabular.number(english, ".") == tabular.number(german, ",") == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("cell", ["n/a", "nan", "(!) nan", "inf", "no data", "", "1e200"])
def test_what_is_no_number_is_none(cell: str) -> None:
    assert tabular.number(cell) is None
    assert tabular.number("0") == 0.0


# Plain --------------------------------------------------------------------------------------------------------------


def test_plain_tables_keep_engines_levels_and_settings() -> None:
    gemm, copy = observe.load(FIXTURES / "plain" / "kernels.csv")
    assert gemm.samples == (pytest.approx(1412.448e-6),)
    assert gemm.flops == {"tensor.bf16": 1116691496960}
    assert gemm.bytes == {"hbm": 1382340258}  # the empty cell is absent
    assert gemm.settings == {"shape": "8192^3"}
    assert copy.flops == {"tensor.bf16": 0.0}  # a zero is a zero
    assert copy.bytes == {}  # n/a is not one


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        ("name,time\na,0.5\n", 0.5),
        ("name,time\na,12.5 us\n", 12.5e-6),
        ("name,time_ms\na,3\n", 3e-3),
        ("name;time_us\na;1.234,5\n", 1234.5e-6),
        ('[{"name": "a", "time_ns": 700}]', 700e-9),
        ('{"name": "a", "time_us": 5}\n{"name": "b", "time_us": 6}\n', 5e-6),
    ],
)
def test_times_in_any_unit(content: str, seconds: float, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    assert observe.load(path)[0].samples == (pytest.approx(seconds),)


def test_flops_without_an_engine_and_bytes_without_a_level(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("name,time_us,flops,bytes\na,1,2e9,3e6\n", encoding="utf-8")
    (found,) = observe.load(path)
    assert found.flops == {"all": 2e9}
    assert found.bytes == {"main": 3e6}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("name,time_us\na,-1\n", "line 2, time_us: is -1.0; it is a number from 1e-09 to"),
        ("name,time_us\na,0\n", "line 2, time_us: is 0.0; it is a number from 1e-09 to"),
        ("name,time_us\na,nan\n", "line 2, time_us: is 'nan'; it is a number"),
        ("name,time_us\na,\n", "line 2: has no time above zero"),
        ("name,time_us,flops\n,1,2\n", "line 2, name: is missing"),
        ("name,time_us,flops\na,1,many\n", "line 2, flops: is 'many'"),
        ("name,time_us\na,1,2,3\n", "line 2: has 4 cells where the header has 2"),
        ("name,time_us,times_us\na,1,1 2\n", "times_us: must be a list of numbers, found '1 2'"),
        ('[{"name": "a", "time_us": true}]', "entry 1, time_us: is True"),
        ('[{"name": 5, "time_us": 1}]', "entry 1, name: must be a text, found 5"),
        ('[{"name": "a", "time_us": 1, "flops": {"x": "y"}}]', "flops.x: is 'y'"),
        ('[{"name": "a", "time_us": 1, "counters": 5}]', "counters: must be a table, found 5"),
        ('[{"name": "a", "time_us": 1, "notes": 5}]', "notes: must be a list, found 5"),
        ('[{"name": "a", "time_us": 1, "notes": [5]}]', "notes 1: must be a text, found 5"),
        ('[{"name": "a", "time_us": 1, "kernel": ["k"]}]', "kernel: must be a text, found a list of 1"),
        ('[{"name": "a", "time_us": 1, "settings": []}]', "settings: must be a table, found a list of 0"),
        ('[{"name": "a", "time_us": 1, "settings": {"m": 1e999}}]', "settings: is inf; numbers are finite"),
        ('[{"name": "a", "time_us": 1, "conditions": "hot"}]', "conditions: must be a table, found 'hot'"),
        ('[{"name": "a", "time_us": 1, "defined": {"time": 3}}]', "defined.time: must be a text, found 3"),
        ('[{"name": "a", "time_us": 1, "path": {"a": 1}}]', "path: must be a list, found a table of 1"),
        ('[{"name": "a", "time_us": 1, "deep": ' + "[" * 40 + "]" * 40 + "}]", "nested deeper than 32"),
        ("[1, 2]", "entry 1: is 1; each entry"),
        ('{"schema": 99, "observations": []}', "schema: is 99, newer than 1"),
        ('[{"schema": 99, "name": "a", "target": "a", "samples": [1]}]', "newer"),
        ('[{"samples": [1]}]', "entry 1, name: is missing"),
        ('[{"name": "a", "samples": 3}]', "entry 1, samples: must be a list of numbers, found 3"),
        ('[{"name": "a", "samples": []}]', "entry 1, samples: is empty"),
        ('[{"name": "a", "samples": [1, 1e400]}]', "samples: entry 2 is inf; it is a number from 1e-15 to 1e"),
        ('[{"name": "a", "samples": [1], "flops": "many"}]', "entry 1, flops: must be a table, found 'many'"),
        ('[{"name": "a", "samples": [1], "flops": {"fp32": 1}}]', "flops: unknown key 'fp32'; keys are such as"),
        ('[{"name": "a", "samples": [1], "bytes": {"hbm": 1}}]', "bytes: unknown key 'hbm'; keys are such as"),
        ('[{"name": "a", "samples": [1], "observed_bytes": {"hbm": -1}}]', "observed_bytes.hbm: is -1"),
        ('[{"name": "a", "time_us": 1e-290}]', "time_us: is 1e-290; it is a number from 1e-09 to 1e"),
        ('{"items": [{"name": "a", "measured_us": 5}], "sentence": "s"}', "is a ridgeline report, not a profile"),
        ("name,time\na,5 parsecs\n", "line 2, time: '5 parsecs': unknown unit"),
        ('[{"name": "a", "time_us": 1', r"is not complete JSON \(line 1 column 28\)"),
        ('[{"name": "a", "time_us": 1, "shape": NaN}]', "NaN is not a JSON number"),
        ('[{"schema": 1, "name": "a", "target": "a", "samples": [1], "counters": {"b": "c"}}]', "counters.b: is 'c'"),
        ("[" * 100_000 + '"time"', "is not valid JSON: it is nested too deep"),
        ("name,time_us,time_ms\na,3,4\n", "line 2: has time_us '3' and time_ms '4'; give each row one time"),
        ('[{"name": "a", "time": 3, "time_s": 3}]', "entry 1: has time 3 and time_s 3"),
        ("name,time_us,Time_us\na,3,4\n", "has the column time_us more than once"),
        ('[{"name": "a", "time_us": 3, "time_us": 4}]', "'time_us' appears twice in one object"),
        ('{"name": "a", "time_us": 1}\n\n{"name" "b"}\n', "line 3 column 9: Expecting ':'"),
        ('{"name": "a", "time_us": 1}\n{"name": "b", "time_us": NaN}\n', "line 2: NaN is not a JSON number"),
    ],
)
def test_plain_mistakes_are_named(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=says) as caught:
        observe.load(path)
    assert str(path) in str(caught.value)


def test_all_mistakes_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("name,time_us,bytes\na,-1,2\nb,1,2\n,3,x\n", encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        observe.load(path)
    assert [text.partition(":")[0] for text in caught.value.complaints] == ["line 2, time_us", "line 4, bytes", "line 4, name"]  # fmt: skip
    rows = [{"name": "a", "samples": [0]}, {"name": "b", "notes": 3, "time_us": "1"}, 7]
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        observe.load(path)
    assert [text.partition(":")[0] for text in caught.value.complaints] == ["entry 1, samples", "entry 2, notes", "entry 3"]  # fmt: skip


HOSTILE = "\x1b[31mred\x1b]0;title\x07\x00\ud800\n\u202e"
TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=20) | st.just(HOSTILE)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "schema", "name", "target", "samples", "flops", "bytes", "settings", "conditions", "tool", "version", "notes",
    "kernel", "observed_flops", "observed_bytes", "counters", "defined", "path", "time", "time_us", "times_us", "more",
)  # fmt: skip
GOOD = {"name": "a", "samples": [1e-3], "time_us": 3.0, "flops": {"vector.fp32": 1.0}, "path": ["a"], "notes": ["b"]}


@law(300, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4), st.sets(st.sampled_from(sorted(GOOD))))
def test_documents_of_any_values_are_read_clean_or_refused(
    tmp_path: Path, wrong: dict[str, Any], good: set[str]
) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps([{"time_us": 1, **{key: GOOD[key] for key in good}, **wrong}]), encoding="utf-8")
    said = ""
    try:
        (item,) = observe.load(path, "plain")
        assert_clean(item)
    except InputError as error:
        said = str(error)
    assert all(line.isprintable() for line in said.splitlines())


def assert_clean(item: Observation) -> None:
    """Nothing that a table, a page or a formula would stumble over."""
    text = json.dumps(to_document(item), allow_nan=False, ensure_ascii=False)
    assert text.isprintable()
    assert item.name
    assert all(math.isfinite(sample) and sample > 0 for sample in item.samples)
    assert all(0 <= value < math.inf for part in (item.flops, item.bytes, item.counters) for value in part.values())


def test_a_time_with_its_unit_may_have_a_decimal_comma(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("name;time\na;12,5 us\nb;1.234,5 us\n", encoding="utf-8")
    assert [item.samples[0] for item in observe.load(path)] == pytest.approx([12.5e-6, 1234.5e-6])


def test_a_time_without_a_unit_is_seconds_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("name,time\na,3\nb,3 us\n", encoding="utf-8")
    bare, told = observe.load(path)
    assert (bare.samples, told.samples) == ((3.0,), (pytest.approx(3e-6),))
    assert "read as seconds" in bare.notes[0]
    assert told.notes == ()
    path = tmp_path / "times.json"
    path.write_text('[{"name": "a", "time": 3, "notes": ["mine"]}, {"name": "b", "time_s": 3}]', encoding="utf-8")
    bare, told = observe.load(path)
    assert bare.notes[0] == "mine"
    assert "read as seconds" in bare.notes[1]
    assert told.notes == ()


def test_what_names_no_tool_comes_from_a_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.json"
    path.write_text('[{"name": "a", "samples": [1e-3]}, {"name": "b", "time_us": 1, "tool": "stopwatch"}]')
    assert [item.tool for item in observe.load(path)] == ["plain", "stopwatch"]


def test_timings_that_the_gate_reads_are_read_as_observations(tmp_path: Path) -> None:
    path = tmp_path / "now.json"
    path.write_text(json.dumps({"schema": 1, "items": [{"name": "a", "times_us": [1, 2]}, {"name": "b", "samples": [3e-6]}]}))  # fmt: skip
    assert [(item.name, item.samples) for item in observe.load(path)] == [
        ("a", pytest.approx((1e-6, 2e-6))),
        ("b", (3e-6,)),
    ]


def test_files_of_observations_read_back(tmp_path: Path) -> None:
    seen = Observation("copy", "hbm", (1e-3, 2e-3), tool="ridgeline", conditions={"clock": 1.0})
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"schema": 1, "ridgeline": "0", "observations": [to_document(seen)]}), encoding="utf-8")
    assert to_document(observe.load(path)) == [to_document(seen)]


# CPU tools ----------------------------------------------------------------------------------------------------------


def test_likwid_regions_sum_threads_and_keep_parts_apart() -> None:
    triad, idle = observe.load(FIXTURES / "likwid" / "marked.csv")
    assert (triad.name, triad.path) == ("triad", ("triad",))
    assert triad.samples == (0.5,)  # the slower thread
    assert triad.flops == {"vector.fp64": 2000e6 * 0.5 + 2500e6 * 0.4}  # the AVX rate is a part of it
    assert triad.bytes == {"main": 24e9, "l2": 25e9}
    assert triad.conditions["name"].startswith("Intel")
    assert triad.settings == {"groups": ["MEM_DP", "L2"], "threads": 2}
    assert idle.flops == {"vector.fp64": 0.0}  # counted, and none
    assert idle.bytes == {}  # not counted


def test_likwid_says_when_groups_are_of_different_runs(tmp_path: Path) -> None:
    path = tmp_path / "slow.csv"
    path.write_text((FIXTURES / "likwid" / "marked.csv").read_text().replace("0.51,0.41", "0.71,0.41"))
    assert "different runs" in observe.load(path)[0].notes[0]


def test_perf_counts_by_the_width_of_the_vectors() -> None:
    (found,) = observe.load(FIXTURES / "perf" / "handmade_events.csv")
    assert found.samples == (2.0,)
    assert found.flops == {"vector.fp64": 1e6 + 4 * 250e6, "vector.fp32": 16 * 100}
    assert found.bytes == {"main": pytest.approx((11444.09 + 5722.05) * 2**20)}
    assert (
        found.defined["flops.vector.fp64"]
        == "fp_arith_inst_retired.scalar_double + 4 x fp_arith_inst_retired.256b_packed_double"
    )
    notes = "\n".join(found.notes)
    assert "not counted: fp_arith_inst_retired.512b_packed_double, cycles" in notes
    assert "scalar_double 50 %" in notes
    assert "cycles" not in found.counters


def test_perf_of_repeated_runs_and_without_a_wall_time(tmp_path: Path) -> None:
    (found,) = observe.load(FIXTURES / "perf" / "software.csv")
    assert found.samples == (pytest.approx(0.104125817),)
    path = tmp_path / "clock.csv"
    path.write_text("7900.00,msec,task-clock,7900000000,100.00,3.950,CPUs utilized\n")
    assert observe.load(path)[0].samples == (pytest.approx(2.0),)
    path.write_text("5,,page-faults,7900000000,100.00,,\n")
    with pytest.raises(InputError, match="duration_time"):
        observe.load(path)


def test_advisor_loops_have_levels_and_a_precision_where_there_is_one() -> None:
    triad, mixed = observe.load(FIXTURES / "advisor" / "survey.csv")  # main has no time of its own
    assert triad.name == "[loop in triad at triad.c:12]"
    assert triad.samples == (1.0,)  # elapsed, not summed over threads
    assert triad.flops == {"vector.fp64": 2e9}
    assert triad.bytes == pytest.approx({"l1": 24e9, "l2": 24.1e9, "l3": 24e9, "main": 23.9e9})
    assert mixed.flops == {"all": 1.5e9}  # two data types: not told
    assert mixed.bytes == {"l1": 1.5e9 / 0.5}  # from the intensity
    assert mixed.notes == ("the time is summed over threads",)


def test_rocprof_counts_lanes_matrix_operations_and_request_sizes() -> None:
    triad, gemm = observe.load(FIXTURES / "rocprof" / "pmc_perf.csv")  # the third never ended
    assert triad.name == "triad"
    assert triad.kernel == "void triad<float>(float*, float const*)"
    assert triad.samples == (pytest.approx(100e-6),)
    assert triad.flops["vector.fp32"] == 64 * (1000 + 2 * 2000)
    assert triad.bytes["hbm"] == 1000 * 32 + 3000 * 64 + 2000 * 64
    assert triad.bytes["l1"] == 12000 * 64
    assert "tensor.fp64" not in triad.flops  # not collected
    assert gemm.flops["tensor.bf16"] == 512 * 2_000_000
    assert "l1" not in gemm.bytes  # an empty cell


def test_rocprof_with_a_row_per_counter() -> None:
    first, second = observe.load(FIXTURES / "rocprof" / "counter_collection.csv")
    assert first.flops == {"tensor.fp16": 512 * 1000}
    assert first.bytes == {"l1": 640}
    assert second.samples == (pytest.approx(2e-6),)


# Commands -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", sorted(commands.COMMANDS))
def test_commands_end_in_the_program_and_say_why(tool: str) -> None:
    made = commands.COMMANDS[tool](["python", "train.py", "--steps", "2"])
    assert any(command.words[-4:] == ["python", "train.py", "--steps", "2"] for command in made)
    assert made[-1].out
    assert all(command.why for command in made)
    with pytest.raises(InputError, match="after --"):
        commands.COMMANDS[tool]([])


def test_the_ncu_command_is_the_one_design_asks_for() -> None:
    (made,) = commands.ncu(["python", "a.py"], use="roofline", kernel="gemm", launches=3)
    line = " ".join(made.words)
    for part in ("--clock-control none", "--cache-control all", "--replay-mode kernel", "--nvtx", "--csv --page raw", "--kernel-name regex:gemm", "--launch-count 3", f"--log-file {made.out}"):  # fmt: skip
        assert part in line
    assert "--set full" in " ".join(commands.ncu(["a"], use="full")[0].words)
    with pytest.raises(InputError, match="roofline, diagnosis, full"):
        commands.ncu(["a"], use="all")


def test_perf_events_of_the_command_are_those_the_importer_counts() -> None:
    from ridgeline.profilers.perf import FLOPS

    assert set(commands.FP_EVENTS) <= set(FLOPS)
    assert "-a" in commands.perf(["a"], memory=True)[0].words
    assert "-a" not in commands.perf(["a"])[0].words


# Damage -------------------------------------------------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A recorded file with some bytes changed, a piece cut out, or its end missing."""
    tool, path = draw(st.sampled_from(EVERY))
    content = bytearray(path.read_bytes())
    if len(content) > 12_000:  # header, units and a few kernels do
        content = content[: draw(st.integers(6_000, 12_000))] if tool == "ncu" and "details" in path.name else content
    for _ in range(draw(st.integers(0, 8))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        if content:
            content[place] = draw(st.one_of(st.integers(0, 255), st.sampled_from(b'",.;-\n\r0\x00x')))
    if draw(st.booleans()):
        start = draw(st.integers(0, len(content)))
        del content[start : start + draw(st.integers(0, 400))]
    if draw(st.booleans()):
        del content[draw(st.integers(0, len(content))) :]
    return tool, bytes(content)


@law(150, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_damaged_files_give_observations_or_one_message(tmp_path: Path, case: tuple[str, bytes]) -> None:
    tool, content = case
    path = tmp_path / "damaged.csv"
    path.write_bytes(content)
    for as_ in (None, tool):
        try:
            found = observe.load(path, as_)
        except InputError:
            continue
        assert found
        assert json.loads(json.dumps(observe.document(found), allow_nan=False))[0]["time_us"] > 0


@law(60, suppress_health_check=list(HealthCheck))
@given(st.one_of(st.binary(max_size=400), st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace"))))
def test_garbage_gives_one_message(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(content)
    for as_ in (None, *FILES):
        said = ""
        try:
            observe.load(path, as_)
        except InputError as error:
            said = str(error)
        assert "\x00" not in said


@pytest.mark.parametrize("form", ['{{"traceEvents": [{0}, {0}]}}', "[{0}, {0}]"])
def test_a_chrome_trace_of_another_program_is_refused_in_one_line(form: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(form.format('{"name": "RunTask", "ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 2}'))
    with pytest.raises(InputError, match="is a Chrome trace of neither PyTorch nor JAX") as error:
        observe.load(path)
    assert "\n" not in str(error.value)
