"""Files made to break or to slow an importer: each is read clean or refused with one message, in a short time."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.core.intake import limits
from ridgeline.core.observation import Observation, admitted
from ridgeline.profilers import advisor, chrome_trace, likwid, perf, plain, rocprof
from ridgeline.profilers import load as observe
from ridgeline.profilers.ncu import formulas, kernel
from ridgeline.profilers.torch_profiler import events
from strategies import law

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x00\ud800\u202e"
LONG = 100_000


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def limit(**values: float) -> None:
        monkeypatch.setattr(limits, "_given", values)

    return limit


def kernel_event(place: int = 1, **parts: Any) -> dict[str, Any]:
    args = {"External id": place, "correlation": place, "device": 0, "stream": 7}
    return {
        "ph": "X", "cat": "kernel", "name": f"k{place}", "pid": 0, "tid": 7, "ts": 10.0 * place, "dur": 5.0, "args": args,
        **parts,
    }  # fmt: skip


def op_event(place: int = 1, **parts: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10.0 * place, "dur": 5.0,
        "args": {"External id": place}, **parts,
    }  # fmt: skip


def torch_trace(folder: Path, *listed: Any, **header: Any) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": listed, **header}), encoding="utf-8")
    return path


def jax_trace(folder: Path, *listed: Any) -> Path:
    names = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "Stream #3"}},
    ]
    path = folder / "jax.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*names, *listed]}))  # fmt: skip
    return path


def assert_clean(items: list[Observation]) -> None:
    assert items
    for item in items:
        assert json.dumps(to_document(item), allow_nan=False, ensure_ascii=False).isprintable()
        assert all(0 < sample < math.inf for sample in item.samples)


# Values of traces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (kernel_event(ts="soon"), "event 2, 'k1': has no usable time (ts 'soon', dur 5.0)"),
        (kernel_event(dur=-1), "event 2, 'k1': has no usable time"),
        (kernel_event(dur=math.nan), "event 2, 'k1': has no usable time"),
        (kernel_event(dur=1e300), "event 2, 'k1': has no usable time"),
        (kernel_event(ts=1e308), "event 2, 'k1': has no usable time"),
        (kernel_event(ts=10**400), "ts a number with too many digits"),
        (kernel_event(args=[1, 2]), "args must be a table, found a list of 2"),
        (kernel_event(args={"correlation": [1]}), "correlation is a list of 1; it is a whole number"),
        (kernel_event(args={"External id": "7"}), "External id is '7'; it is a whole number"),
        (kernel_event(args={"device": math.inf}), "settings: is inf; numbers are finite"),
        (kernel_event(args={"stream": json.loads("[" * 50 + "]" * 50)}), "nested deeper than 32"),
        (7, "event 2: is 7; an event is a table"),
        ({"ph": "s", "cat": "fwdbwd", "id": [1], "ts": 3}, "an arrow needs an id and a time, found a list of 1"),
    ],
)
def test_wrong_values_of_a_torch_trace_are_named(event: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        observe.load(torch_trace(tmp_path, op_event(), event, kernel_event(2)))
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"ts": "soon", "dur": 1}, "has no usable time (ts 'soon', dur 1)"),
        ({"ts": 1, "dur": -5}, "has no usable time"),
        ({"ts": 1, "dur": math.inf}, "has no usable time"),
        ({"ts": 1, "dur": 5, "args": [3]}, "args must be a table, found a list of 1"),
    ],
)
def test_wrong_values_of_a_jax_trace_are_named(event: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        observe.load(jax_trace(tmp_path, {"ph": "X", "pid": 1, "tid": 3, "name": "k", **event}))
    assert says in str(caught.value)


def test_names_may_be_anything_and_come_out_clean(tmp_path: Path) -> None:
    named = [
        kernel_event(1, name=HOSTILE),
        kernel_event(2, name=5),
        kernel_event(3, name=["a"]),
        kernel_event(4, name=""),
    ]
    items = observe.load(torch_trace(tmp_path, *named, deviceProperties=[{"id": 0, "name": HOSTILE}]))
    assert_clean(items)
    assert [item.kernel for item in items][1:] == ["5", "['a']", ""]
    assert all(item.name for item in items)
    ops = [{"ph": "X", "pid": 1, "tid": 3, "name": HOSTILE, "ts": 1, "dur": 3, "args": {"tf_op": HOSTILE}}]
    assert_clean(observe.load(jax_trace(tmp_path, *ops)))


def test_names_of_tables_come_out_clean(tmp_path: Path) -> None:
    path = tmp_path / f"a\x1b[31m{'x' * 10}.csv"
    path.write_text("2.0,s,duration_time,2000,100.00,,\n", encoding="utf-8")
    assert_clean(observe.load(path, "perf"))
    path.write_text("name,time_us,flops.\ufeffx,\u202ecolour\na,1,2,3\n", encoding="utf-8")
    assert_clean(observe.load(path))
    path.write_text("Kernel_Name,Start_Timestamp,End_Timestamp\nk\x1b[31m\x07,1,5\n", encoding="utf-8")
    assert_clean(observe.load(path, "rocprof"))


def test_amounts_that_overflow_are_refused_with_their_name() -> None:
    item = Observation("k", "k", (1.0,), counters={"ipc": math.inf}, flops={"all": 1e200})
    with pytest.raises(InputError, match=r"'k', counters.ipc: is inf") as caught:
        admitted([item], "file")
    assert "'k', flops.all: is 1e+200" in str(caught.value)


def test_a_clock_from_1970_keeps_short_times(tmp_path: Path) -> None:
    """At 1.7e15 us a float has quarters of a microsecond; from the first event on it has all digits."""
    start = 1.7e15
    traced = [kernel_event(place, ts=start + 16 * place, dur=1.3) for place in range(3)]
    items = observe.load(torch_trace(tmp_path, *traced))
    assert [item.samples[0] for item in items] == pytest.approx([1.3e-6] * 3, rel=1e-12)
    path = tmp_path / "pmc.csv"
    path.write_text("Kernel_Name,Start_Timestamp,End_Timestamp\nk,1700000000000000001,1700000000000000004\n")
    assert observe.load(path)[0].samples == (pytest.approx(3e-9),)


def test_arrows_do_not_link_ops_that_have_none(tmp_path: Path) -> None:
    ranged = {**op_event(1, dur=50.0, args={}), "cat": "user_annotation", "name": "forward"}
    arrow = {"ph": "s", "cat": "fwdbwd", "id": 0, "pid": 1, "tid": 1, "ts": 12.0}
    inside, later = op_event(1, ts=12.0, name="a"), op_event(9, name="b")
    items = observe.load(torch_trace(tmp_path, ranged, inside, later, arrow))
    assert {item.name: item.path for item in items} == {"a": ("forward",), "b": ()}


# Rows that cannot be used ---------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_used_are_counted_in_a_note(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("Kernel_Name,Start_Timestamp,End_Timestamp\na,5,5\nb,1,4\nc,1\nd,x,4\n")
    (item,) = observe.load(path)
    assert item.notes == ("3 rows omitted, truncated or without kernel, start and end (line 2 and others)",)
    path.write_text("loop_name,self_time\na,\nb,1.5s\n")
    (item,) = observe.load(path)
    assert item.notes[-1] == "1 row omitted, without a name or self time (line 2)"
    path.write_text("2.0,s,duration_time,2000,100.00,,\nhello world\n")
    (item,) = observe.load(path)
    assert item.notes == ("1 row omitted, not written by perf stat (line 2)",)
    (item,) = observe.load(torch_trace(tmp_path, kernel_event(1), kernel_event(2, dur=0)))
    assert item.notes == ("1 more kernel of the trace without measurable time, omitted",)


def test_rows_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("Kernel_Name,Start_Timestamp,End_Timestamp\nk<a, b>,1,5\n")
    with pytest.raises(InputError, match="line 2: has 4 cells where the header has 3"):
        observe.load(path)
    path.write_text("Kernel_Name,Start_Timestamp,End_Timestamp\nk,1,1e60\n")
    with pytest.raises(InputError, match="line 2, end less start: is 1e"):
        observe.load(path)
    path.write_text("2.0,s,duration_time,2000,100.00,,\n3.0,s,duration_time,2000,100.00,,\n")
    with pytest.raises(InputError, match="has duration_time 2 times"):
        observe.load(path)


def test_kernels_without_a_dispatch_number_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    header = "Kernel_Name,Start_Timestamp,End_Timestamp,Counter_Name,Counter_Value\n"
    path.write_text(header + "a,1,5,x,1\na,1,5,y,2\na,7,9,x,1\nb,1,5,x,1\n")
    assert [(item.name, item.samples[0]) for item in observe.load(path)] == [
        ("a", pytest.approx(4e-9)),
        ("a", pytest.approx(2e-9)),
        ("b", pytest.approx(4e-9)),
    ]


def test_likwid_leaves_out_what_a_thread_did_not_count(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text(
        "TABLE,Group 1 Metric,MEM_DP,3\nMetric,HWThread 0,HWThread 1\nRuntime (RDTSC) [s],1.0,1.0\n"
        "DP [MFLOP/s],100,nan\nMemory data volume [GBytes],1,2\n"
    )
    (item,) = observe.load(path)
    assert (item.flops, item.bytes) == ({}, {"main": 3e9})
    assert item.notes == ("omitted, not counted on every thread: DP [MFLOP/s] of MEM_DP",)


# Size and depth -------------------------------------------------------------------------------------------------------


def test_events_are_limited_in_number_and_size(tmp_path: Path, limited: Callable[..., None]) -> None:
    path = torch_trace(tmp_path, *(kernel_event(place) for place in range(1, 30)))
    limited(rows=20.0)
    with pytest.raises(InputError, match=r"event 21, is over the limit of 20 .*--limit rows="):
        observe.load(path)
    large = torch_trace(tmp_path, kernel_event(name="x" * 3000), kernel_event(2))
    limited(line=1000.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_trace, "PIECE", 512)
        with pytest.raises(InputError, match=r"entry \d+, is over the limit of .*--limit line="):
            observe.load(large)


@pytest.mark.parametrize("form", ["plain", "perf", "rocprof", "advisor", "likwid", "ncu"])
def test_rows_are_limited_in_number(form: str, tmp_path: Path, limited: Callable[..., None]) -> None:
    starts = {
        "plain": ("name,time_us\n", "a,1\n"),
        "perf": ("", "2.0,s,cycles,2000,100.00,,\n"),
        "rocprof": ("Kernel_Name,Start_Timestamp,End_Timestamp\n", "a,1,2\n"),
        "advisor": ("loop_name,self_time\n", "a,1\n"),
        "likwid": ("TABLE,Group 1 Metric,MEM_DP,3\n", "Metric,HWThread 0\n"),
        "ncu": ('"ID","Kernel Name","x"\n', '"1","k","2"\n'),
    }
    path = tmp_path / "file"
    path.write_text(starts[form][0] + starts[form][1] * 30)
    limited(rows=20.0)
    with pytest.raises(InputError, match="--limit rows="):
        observe.load(path, form)


def test_kernels_are_limited_in_number(tmp_path: Path, limited: Callable[..., None]) -> None:
    files = {
        "plain.csv": "name,time_us\n" + "a,1\n" * 30,
        "plain.json": json.dumps([{"name": "a", "time_us": 1}] * 30),
        "rocprof.csv": "Kernel_Name,Start_Timestamp,End_Timestamp\n" + "a,1,2\n" * 30,
        "advisor.csv": "loop_name,self_time\n" + "a,1\n" * 30,
    }
    paths = [tmp_path / name for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    paths += [torch_trace(tmp_path, *(kernel_event(place) for place in range(1, 30)))]
    limited(kernels=20.0)
    for path in paths:
        with pytest.raises(InputError, match="--limit kernels="):
            observe.load(path)


@pytest.mark.parametrize("form", ["torch_profiler", "jax_profiler", "plain"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(form: str, opening: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"traceEvents": [' + opening * 10_000)
    with pytest.raises(InputError, match=r"nest|cut off|not complete"):
        observe.load(path, form)


def test_events_that_never_end_are_refused_and_not_followed(tmp_path: Path) -> None:
    spans = [chrome_trace.Span(float(place), 1e9, chrome_trace.OP, "op") for place in range(100_000)]
    with pytest.raises(InputError, match="more than 1000 events of one thread or stream open at once"):
        sum(len(around) for _, around in chrome_trace.nested(spans, Path("trace")))
    deep = [op_event(place, ts=float(place), dur=1e6 - place) for place in range(1, 900)]
    items = observe.load(
        torch_trace(tmp_path, *deep, *(kernel_event(place, ts=1e6 + 9 * place) for place in range(1, 900)))
    )
    assert len(items) == 899
    assert max(len(item.settings["ops"]) for item in items) == 899


# Patterns -------------------------------------------------------------------------------------------------------------

ADVERSARIAL = [
    "a" * LONG, "1" * LONG, "1," * (LONG // 2), "1.1" * (LONG // 3), "/" * LONG, "a/" * (LONG // 2), "<" * LONG, "(" * LONG,
    '"' * LONG, '"a' * (LONG // 2), " " * LONG, "a:" * (LONG // 2), ":" * LONG, "a b" * (LONG // 3), "e" * LONG, "+-" * (LONG // 2),
    "x/" + "a" * LONG + "!", "0x" * (LONG // 2), "::" * (LONG // 2), "\ud800" * LONG, "µ" * LONG, "void " * (LONG // 5),
]  # fmt: skip


@pytest.mark.parametrize(
    "pattern",
    [
        perf._parts,
        perf._plain,
        perf._EVENT.fullmatch,
        likwid._TABLE.fullmatch,
        likwid._THREAD.fullmatch,
        advisor._columns,
        plain._KEYS.search,
        chrome_trace._SIGN.search,
        formulas._TIME.fullmatch,
        formulas._COUNT.fullmatch,
        kernel._QUOTED.findall,
        kernel._RENAMED.fullmatch,
        kernel._short,
        kernel._ranges,
        lambda text: kernel._launched(text, text),
        events.short,
        events.WITH_SCALARS.search,
        lambda text: rocprof.recognises(text, Path("x")),
    ],
    ids=lambda pattern: getattr(pattern, "__qualname__", repr(pattern)),
)
def test_patterns_take_long_texts_in_one_pass(pattern: Callable[[str], object]) -> None:
    """A pattern of quadratic cost would take minutes for some text of the list."""
    read = 0
    for text in ADVERSARIAL:
        with suppress(InputError):  # a cell beyond the limit of csv
            pattern(text)
            read += 1
    assert read


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda text: repr(text[:6]))
def test_details_of_jax_kernels_are_split_in_one_pass(text: str, tmp_path: Path) -> None:
    args = {"kernel_details": f"regs:{text} grid:{text} {text}", "hlo_op": "x", "memcpy_details": text, "tf_op": text}
    event = {"ph": "X", "pid": 1, "tid": 3, "name": "k", "ts": 1, "dur": 3, "args": args}
    assert_clean(observe.load(jax_trace(tmp_path, event)))


# Anything -------------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(HOSTILE) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
TORCH_ARGS = (
    "External id", "correlation", "Input Dims", "Input type", "Concrete Inputs", "device", "stream", "grid", "dtype",
    "Collective name", "est. achieved occupancy %", "bytes", "graph id",
)  # fmt: skip
CATEGORIES = ("kernel", "gpu_memcpy", "cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "cuda_runtime", "fwdbwd")  # fmt: skip
JAX_ARGS = ("hlo_op", "hlo_module", "tf_op", "kernel_details", "memcpy_details", "flops", "bytes_accessed", "name")


def any_event(categories: tuple[str, ...], arguments: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """An event of the right shape, with a few values of any kind."""
    args = st.dictionaries(st.sampled_from(arguments), VALUES, max_size=4)
    times = st.floats(0, 1e6, allow_nan=False)
    good = {
        "ph": st.sampled_from("XXXsM"), "cat": st.sampled_from(categories), "name": st.text(max_size=6) | st.just("nccl"),
        "pid": st.integers(0, 1), "tid": st.integers(0, 2), "ts": times, "dur": times, "args": args,
    }  # fmt: skip
    wrong = st.dictionaries(st.sampled_from([*good, "id"]), VALUES, max_size=1)
    return st.tuples(st.fixed_dictionaries(good), wrong).map(lambda parts: {**parts[0], **parts[1]})


@law(100, suppress_health_check=list(HealthCheck))
@given(st.lists(any_event(CATEGORIES, TORCH_ARGS), max_size=6), st.dictionaries(st.sampled_from(["deviceProperties", "distributedInfo", "baseTimeNanoseconds"]), VALUES))  # fmt: skip
def test_torch_traces_of_any_values(tmp_path: Path, listed: list[Any], header: dict[str, Any]) -> None:
    assert_read_or_refused(torch_trace(tmp_path, *listed, **header), "torch_profiler")


@law(60, suppress_health_check=list(HealthCheck))
@given(st.lists(any_event(("",), JAX_ARGS), max_size=6))
def test_jax_traces_of_any_values(tmp_path: Path, listed: list[Any]) -> None:
    assert_read_or_refused(jax_trace(tmp_path, *listed), "jax_profiler")


def assert_read_or_refused(path: Path, form: str) -> None:
    said = ""
    try:
        assert_clean(observe.load(path, form))
    except InputError as error:
        said = str(error)
    assert all(line.isprintable() for line in said.splitlines())
