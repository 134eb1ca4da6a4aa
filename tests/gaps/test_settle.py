"""The commands of the other half of the loop: import, seal, reconcile, ledger, whatif, gate, on recorded counters."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ridgeline as rl
from ridgeline.app.cli import main
from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.core.figure import Figure
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step
from ridgeline.gaps import settle as records
from ridgeline.gaps.ledger import open_ledger
from ridgeline.profilers import load as observe
from ridgeline.programs.cases import read as read_cases

RECORDED = Path(__file__).parents[1] / "fixtures" / "ncu" / "h200_raw.csv"
CASES = [
    {"name": "gemm_bf16_8192", "op": "gemm", "dtype": "bf16", "m": 8192, "n": 8192, "k": 8192},
    {"name": "gemv_bf16_1x28672x8192", "op": "gemm", "dtype": "bf16", "m": 1, "n": 28672, "k": 8192},
    {"name": "triad_fp32_2^27", "op": "stream_triad", "dtype": "fp32", "n": 2**27},
    {"name": "softmax_bf16", "op": "softmax", "dtype": "bf16", "rows": 16384, "cols": 4096},
]


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in CASES))
    return path


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """What was profiled; `touch` dates it."""
    path = tmp_path / "kernels.csv"
    path.write_bytes(RECORDED.read_bytes())
    return path


def touch(path: Path) -> None:
    """Date a profile after what was sealed; return once that date, which counts whole seconds, has passed."""
    later = int(time.time()) + 1
    os.utime(path, (later, later))
    while time.time() <= later:
        time.sleep(0.05)


def seal(cases: Path, ledger: Path) -> str:
    told = json.loads(run("seal", str(cases), "--on", "h200-sxm", "--ledger", str(ledger), "--json").stdout)
    assert [row["name"] for row in told["predictions"]] == [row["name"] for row in CASES]
    return str(told["id"])


def test_import_is_the_document_outsiders_rely_on() -> None:
    found = json.loads(run("import", str(RECORDED), "--json").stdout)
    gemm = next(row for row in found if row["name"] == "gemm_bf16_8192")
    assert {"name", "kernel", "time_us", "flops", "bytes", "tool", "conditions"} <= set(gemm)
    assert gemm["flops"]["tensor.bf16"] == pytest.approx(1.0156 * 2 * 8192**3, rel=1e-3)
    text = run("import", str(RECORDED)).output
    assert "gemm_bf16_8192" in text
    assert "0 FLOP" not in text  # what counted nothing is not shown, though --json has it


def test_a_file_nobody_knows_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(range(256)) * 10)
    assert "lists the formats" in run("import", str(tmp_path / "x.bin"), code=2).output
    assert "cannot" in run("import", str(tmp_path / "none.csv"), code=2).output


def test_a_table_of_observations_keeps_all_of_them_and_is_read_back(tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    rows = "".join(f'"k<{place},x>",{place + 1}.5,{place}e9,\n' for place in range(100))
    many.write_text("name,time_us,flops.tensor.bf16,bytes.hbm\n" + rows)
    out = tmp_path / "out.csv"
    run("import", str(many), "--out", str(out))
    found = observe.load(out)
    assert [item.name for item in found] == [f"k<{place},x>" for place in range(100)]
    assert [item.samples[0] for item in found] == pytest.approx([(place + 1.5) * 1e-6 for place in range(100)])
    assert [item.flops["tensor.bf16"] for item in found] == [place * 1e9 for place in range(100)]
    assert not any(item.bytes for item in found)  # absent stays absent


def test_sealed_then_profiled_then_settled(cases: Path, seen: Path, tmp_path: Path, monkeypatch: Any) -> None:
    book = tmp_path / "ledger.sqlite"
    name = seal(cases, book)
    touch(seen)
    told = json.loads(run("reconcile", str(seen), "--seal", name, "--ledger", str(book), "--json").stdout)
    assert [item["name"] for item in told["items"]] == [row["name"] for row in CASES]
    assert all(item["sealed"] for item in told["sealed"]["items"])
    for item in told["items"]:
        assert sum(entry["us"] for entry in item["accounting"]) == pytest.approx(item["measured_us"])
    report = json.loads(run("ledger", "report", "--ledger", str(book), "--json").stdout)
    assert (report["settled"], report["open"]) == (len(CASES), 0)
    assert run("ledger", "verify", "--ledger", str(book)).output.startswith("intact: 2 records, head ")
    text = run("ledger", "--ledger", str(book)).output
    assert text.startswith("median error ")
    assert "over 4 settled predictions" in text.splitlines()[0]
    assert "Worst misses" in text
    out = tmp_path / "predictions.md"
    run("ledger", "show", "--ledger", str(book), "--out", str(out))
    assert "gemm" in out.read_text()
    assert name in out.read_text()


def test_what_was_measured_before_it_was_sealed_is_no_evidence(cases: Path, seen: Path, tmp_path: Path) -> None:
    os.utime(seen, (1e9, 1e9))
    book = tmp_path / "ledger.sqlite"
    name = seal(cases, book)
    told = json.loads(run("reconcile", str(seen), "--seal", name, "--ledger", str(book), "--json").stdout)
    assert not any(item["sealed"] for item in told["sealed"]["items"])
    assert "not after the seal" in told["sealed"]["items"][0]["reason"]


def alter(book: Path, old: str, new: str) -> None:
    with sqlite3.connect(book) as connection:
        names = [row[0] for row in connection.execute("select name from sqlite_master where type='trigger'")]
        for trigger in names:
            connection.execute(f"drop trigger {trigger}")
        connection.execute("update record set content = replace(content, ?, ?)", (old, new))
    connection.close()


def test_an_altered_record_is_found_with_exit_code_1(cases: Path, seen: Path, tmp_path: Path) -> None:
    """The gaps and the report are still shown; nothing is added to what is broken."""
    book = tmp_path / "ledger.sqlite"
    name = seal(cases, book)
    alter(book, "gemm_bf16_8192", "gemm_bf16_9192")
    before = book.read_bytes()
    result = run("ledger", "verify", "--ledger", str(book), code=1)
    assert "broken" in result.output
    assert "broken (" in run("ledger", "--ledger", str(book), code=1).stdout
    told = run("reconcile", str(seen), "--seal", name, "--ledger", str(book), code=1)
    assert "softmax_bf16" in told.stdout
    assert "is missing: another program wrote this file; see all" in told.stderr
    assert "`ridgeline ledger verify`" in told.stderr
    page = tmp_path / "x.html"
    run("reconcile", str(seen), "--seal", name, "--ledger", str(book), "--out", str(page), code=1)
    assert page.exists()
    document = run("reconcile", str(seen), "--seal", name, "--ledger", str(book), "--json", code=1).stdout
    assert "is broken and was not changed" in json.loads(document)["sealed"]["broken"]
    sealing = run("seal", str(cases), "--on", "h200-sxm", "--ledger", str(book), code=1)
    assert "is broken and was not changed" in sealing.stderr
    assert book.read_bytes() == before
    alter(book, "{", "")
    assert "cannot be read" in run("reconcile", str(seen), "--seal", name, "--ledger", str(book), code=1).stderr
    book.write_bytes(before[:3000])
    assert "damaged" in run("ledger", "--ledger", str(book), code=1).stderr


def test_a_seal_is_settled_on_its_own_machine(cases: Path, seen: Path, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    words = ("reconcile", str(seen), "--seal", seal(cases, book), "--ledger", str(book))
    told = run(*words, "--on", "h100-sxm", code=2).output
    assert "is for h200-sxm, not h100-sxm; omit the machine" in told
    assert open_ledger(book).head()[0] == 1
    run(*words, "--on", "h200-sxm")
    assert open_ledger(book).head()[0] == 2


def test_counters_of_another_device_are_told(cases: Path, tmp_path: Path) -> None:
    words = ("reconcile", str(RECORDED), "--cases", str(cases))
    other = run(*words, "--on", "h100-sxm", "--json")
    note = "measured on NVIDIA H200 (h200-sxm), predicted for h100-sxm"
    assert note in json.loads(other.stdout)["notes"][0]
    assert other.stderr.count(note) == 1
    assert note in run(*words, "--on", "h100-sxm", "-v").stdout
    assert json.loads(run(*words, "--on", "h200-sxm", "--json").stdout)["notes"] == []
    strange = [Observation("relu", "relu", (1e-5,), conditions={"device": name}) for name in ("", "NVIDIA H999", "cpu")]
    rows = [{"op": "relu", "n": 10**6}]
    assert records.reconcile(rows, rl.machine("h100-sxm"), strange).report.notes == ()
    assert records.reconcile(rows, rl.two_number(1e15, 1e12), observe.load(RECORDED)).report.notes == ()


def test_the_report_starts_with_coverage_and_verdict(cases: Path, seen: Path, tmp_path: Path) -> None:
    book = tmp_path / "l.sqlite"
    for words in (
        ("reconcile", str(seen), "--cases", str(cases), "--on", "h200-sxm"),
        ("reconcile", str(seen), "--seal", seal(cases, book), "--ledger", str(book)),
    ):
        told = run(*words).stdout
        document = json.loads(run(*words, "--json").stdout)
        coverage, verdict = told.splitlines()[:2]
        assert coverage == "28 % of 7.62 ms explained: 4 of 14 kernels joined to predictions"
        assert verdict.startswith("compute-bound: 77 % of the time is in compute-bound kernels; median error ")
        assert document["sentence"].startswith(f"{coverage}. {verdict}.")
        assert document["explained_share"] == pytest.approx(0.28, abs=0.005)
        run(*words, "--out", str(tmp_path / "x.md"))
        assert (tmp_path / "x.md").read_text().startswith(coverage)
    assert "settled 4 predictions of seal" in told
    assert "repeat" in run(*words, "-v").stdout


def test_reconcile_without_a_seal_says_so_and_draws(cases: Path, seen: Path, tmp_path: Path) -> None:
    words = ("reconcile", str(seen), "--cases", str(cases), "--on", "h200-sxm")
    told = json.loads(run(*words, "--json").stdout)
    assert told["sealed"] is False
    assert told["unmatched"]["observed"]  # the recorded file holds more kernels than the cases
    diagnosed = told["unmatched"]["diagnosed"]
    assert {row["name"] for row in diagnosed} <= set(told["unmatched"]["observed"])
    assert [row["time_us"] for row in diagnosed] == sorted((row["time_us"] for row in diagnosed), reverse=True)
    assert any(cause["status"] == "shown" and cause["evidence"] for row in diagnosed for cause in row["diagnosis"])
    assert "diagnosed by their counters: " in run(*words).stdout
    for name in ("gaps.svg", "gaps.html", "gaps.md"):
        run(*words, "--out", str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 1000
    assert "Time by cause" in run(*words, "-v").output
    both = run("reconcile", str(seen), "--cases", str(cases), "--seal", "1", "--on", "h200-sxm", code=2)
    assert "give either --seal ID" in both.output
    assert "no machine" in run("reconcile", str(seen), "--cases", str(cases), code=2).output


def test_the_chart_has_both_works_of_a_kernel(cases: Path) -> None:
    from ridgeline.render.charts.gaps import report_chart

    found = records.reconcile(CASES, rl.machine("h200-sxm"), observe.load(RECORDED)).report
    chart = report_chart(found)
    observed = {point.name: point for point in chart.points if point.role == "observed"}
    hollow = {point.name: point for point in chart.points if point.role == "target"}
    gemv = observed["gemv_bf16_1x28672x8192"]
    own = hollow["gemv_bf16_1x28672x8192, algorithmic"]
    # eight rows were computed where one was asked for
    assert gemv.y / own.y == pytest.approx(8, rel=0.01)
    assert all(point.y <= 1.02 * 4.7e12 * point.x for point in observed.values())


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"op": "add", "n": 8, "count": "abc"}, "row 1, column count: is 'abc'"),
        ({"op": "add", "n": 8, "count": "-3"}, "row 1, column count: is '-3'"),
        ({"op": "add", "n": 8, "count": "nan"}, "row 1, column count: is 'nan'"),
        ({"op": "add", "n": 8, "count": 0}, "row 1, column count: is '0'"),
        ({"name;op;n": "a;add;8"}, "row 1, column op: is empty; the columns are name;op;n"),
        (
            {"op": "add", "n": 8, "machine": "a100-sxm-80gb"},
            "row 1, column machine: a100-sxm-80gb, but the predictions are for",
        ),
    ],
)
def test_a_case_that_cannot_be_sealed_names_its_column(row: dict[str, Any], says: str, tmp_path: Path) -> None:
    place = tmp_path / "l.sqlite"
    with pytest.raises(InputError, match=says):
        records.seal(open_ledger(place), [row], rl.machine("h200-sxm"))
    assert not place.exists()


def test_what_joins_nothing_settles_nothing_and_names_both_sides(cases: Path, tmp_path: Path) -> None:
    ledger, other = tmp_path / "l.sqlite", tmp_path / "other.csv"
    other.write_text("name,time_us\nfoo,5\n")
    made = seal(cases, ledger)
    told = run("reconcile", str(other), "--seal", made, "--ledger", str(ledger), code=2).output
    assert "predicted: gemm_bf16_8192" in told
    assert "observed: foo" in told
    assert "names of the cases" in told
    words = ("reconcile", str(other), "--cases", str(cases), "--on", "h200-sxm")
    assert "there is nothing to draw" in run(*words, "--out", str(tmp_path / "x.svg"), code=2).output
    assert json.loads(run(*words, "--json").stdout)["unmatched"]["observed"] == ["foo"]


def test_doubtful_joins_are_shown_and_never_settled(tmp_path: Path) -> None:
    """Two cases, one of them joined by its name, the other by the family of its kernel: the ledger takes the first."""
    cases, book = tmp_path / "cases.csv", tmp_path / "book.sqlite"
    cases.write_text("name,op,n,rows,cols,dtype\ncopy,copy,1e8,,,bf16\nsoftmax,softmax,,16384,4096,bf16\n")
    sealed = records.seal(open_ledger(book), read_cases(cases), rl.machine("h200-sxm"))
    named = Observation("copy", "copy", (1e-4,), kernel="copy_kernel")
    doubtful = Observation("step 7", "step 7", (1e-4,), kernel="big_softmax_fused")
    settled = records.settle(open_ledger(book), sealed, [named, doubtful])
    assert [item.name for item in settled.report.items] == ["copy", "softmax"]
    assert settled.report.items[1].gap.confidence == "low"
    assert settled.settled is not None
    assert [item["name"] for item in settled.settled.items] == ["copy"]
    with pytest.raises(InputError, match="every join is doubtful"):
        records.settle(open_ledger(book), sealed, [doubtful])


def test_a_fused_kernel_beside_a_seal_is_held_against_its_rows(tmp_path: Path) -> None:
    ledger, cases, fused = (tmp_path / name for name in ("l.sqlite", "cases.csv", "fused.csv"))
    cases.write_text("name,op,n\na,add,1000000\nb,relu,1000000\n")
    told = json.loads(run("seal", str(cases), "--on", "h200-sxm", "--ledger", str(ledger), "--json").stdout)
    fused.write_text("name,time_us\na+b,4\n")
    settled = json.loads(run("reconcile", str(fused), "--seal", told["id"], "--ledger", str(ledger), "--json").stdout)
    assert [(item["name"], item["sealed"], item["steps"]) for item in settled["sealed"]["items"]] == [("a + b", True, ["a", "b"])]  # fmt: skip
    (case,) = json.loads(run("ledger", "--ledger", str(ledger), "--json").stdout)["cases"]
    assert case["predicted_us"] == pytest.approx(sum(row["time_us"] for row in told["predictions"]))
    assert "2 settled, 0 open" in run("ledger", "--ledger", str(ledger)).output


def test_a_seal_is_of_the_backend_its_cases_name(tmp_path: Path) -> None:
    """What `predict --backend` says of each case; settling and the gaps take the same."""
    cases, ledger, seen = tmp_path / "cases.csv", tmp_path / "l.sqlite", tmp_path / "seen.csv"
    size = "gemm,512,14336,4096,fp8"
    cases.write_text(f"name,op,m,n,k,dtype,backend\na,{size},vllm-0.24.0\nb,{size},\n")
    made = json.loads(run("seal", str(cases), "--on", "h100-sxm", "--ledger", str(ledger), "--json").stdout)
    work = rl.ops.gemm(m=512, n=14336, k=4096, dtype="fp8")
    served, plain = (
        float(rl.predict(work, rl.machine("h100-sxm"), backend=name).time) * 1e6 for name in ("vllm-0.24.0", None)
    )
    assert abs(served / plain - 1) > 0.01, "these two libraries differ here"
    assert [row["time_us"] for row in made["predictions"]] == pytest.approx([served, plain])
    assert [row.get("backend") for row in made["predictions"]] == ["vllm-0.24.0", None]
    seen.write_text("name,time_us\na,200\nb,200\n")
    words = ("reconcile", str(seen), "--seal", made["id"], "--ledger", str(ledger), "--json")
    told = json.loads(run(*words).stdout)
    assert [item["predicted_us"] for item in told["items"]] == pytest.approx([served, plain])


def test_many_steps_of_one_kernel_wait_for_the_host_together() -> None:
    """20 kernels of 2 us, sent in 5.417 us each by the H200's host: at least 20 x (5.417 - 2) us, and none in a graph."""
    rows = [{"name": f"step{place}", "op": "relu", "n": 10**5} for place in range(20)]
    machine = rl.machine("h200-sxm")
    each = machine.dispatch.value()
    seen = [Observation(row["name"], row["name"], (2e-6,), kernel="elementwise") for row in rows]
    told = {
        way: records.reconcile([{**row, "sent": way} for row in rows], machine, seen).report.verdict["waiting_us"]
        for way in ("one by one", "graph")
    }
    assert told["one by one"] == pytest.approx(20 * (each - 2e-6) * 1e6)
    assert not told["graph"]
    alone = records.reconcile([{**rows[0], "sent": "one by one"}], machine, seen[:1]).report
    assert alone.verdict["waiting_us"] is None, "what one kernel waits for depends on what stands before it"
    long = [Observation(row["name"], row["name"], (1e-4,), kernel="elementwise") for row in rows]
    hidden = records.reconcile([{**row, "sent": "one by one"} for row in rows], machine, long).report
    assert hidden.verdict["waiting_us"] == 0, "long kernels hide the sending"


def test_the_record_says_whether_there_are_enough_cases(cases: Path, seen: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    run("reconcile", str(seen), "--seal", seal(cases, ledger), "--ledger", str(ledger))
    assert "too few cases" in run("ledger", "--ledger", str(ledger)).output


def test_what_a_ledger_cannot_do_is_told(cases: Path, tmp_path: Path) -> None:
    ledger, cut = tmp_path / "l.sqlite", tmp_path / "cut.sqlite"
    seal(cases, ledger)
    picture = tmp_path / "p.png"
    assert "written to .md, .json" in run("ledger", "show", "--out", str(picture), "--ledger", str(ledger), code=2).output  # fmt: skip
    assert not picture.exists()
    assert "--expect goes with verify" in run("ledger", "--expect", "0" * 64, "--ledger", str(ledger), code=2).output
    cut.write_bytes(ledger.read_bytes()[:3000])
    told = json.loads(run("ledger", "verify", "--ledger", str(cut), "--json", code=1).stdout)
    assert [one["what"] for one in told["findings"]] == ["damaged"]


def test_a_program_in_which_nothing_is_busy_says_so() -> None:
    rows = [{"name": name, "op": "add", "n": 10**8} for name in ("a", "b")]
    counted = {"flops": {"vector.fp32": 1.0}, "bytes": {"hbm": 1.0}}
    found = records.reconcile(
        rows, rl.machine("h200-sxm"), [Observation(name, name, (1.0,), **counted) for name in "ab"]
    )
    assert "latency-bound: no unit above 60 % utilization for 100 % of the time" in found.report.sentence


def test_a_picture_of_many_kernels_names_the_longest() -> None:
    from ridgeline.render.charts.gaps import report_chart

    rows = [{"name": f"k{place}", "op": "add", "n": 10**6} for place in range(50)]
    seen = [Observation(f"k{place}", f"k{place}", (1e-5 + place * 1e-6,)) for place in range(50)]
    found = records.reconcile(rows, rl.machine("h200-sxm"), seen).report
    chart = report_chart(found)
    assert {point.name for point in chart.points if point.label} == {f"k{place}" for place in range(36, 50)}
    assert any("14 longest of 50" in note for note in chart.notes)


def test_cases_say_how_kernels_are_sent(tmp_path: Path) -> None:
    """Counters do not tell; the column does, through a seal as well, and what the tool saw goes before it."""
    figure = Figure("s", measured=9e-6, measurement="by hand", source="a test")
    machine = replace(rl.machine("h200-sxm"), dispatch=figure)
    rows = [{"name": "many", "op": "add", "dtype": "fp32", "n": 1024000, "sent": "one by one"}]
    when = {"date": "2100-01-01T00:00:00+00:00"}
    each = {"flops": {"vector.fp32": 1024.0}, "bytes": {"hbm": 12288.0}}
    kernel = Observation("many", "many", (2e-6,), kernel="add", conditions=when, **each)
    items = [kernel] * 1000
    found = records.reconcile(rows, machine, items).report.items[0]
    assert found.gap.waiting == pytest.approx(1000 * (9e-6 - 2e-6))
    assert to_document(found)["host"]["us"] == pytest.approx(7000)
    assert to_document(found)["host"]["sent"] == "one by one"
    assert records.reconcile([{**rows[0], "sent": "graph"}], machine, items).report.items[0].gap.waiting == 0.0
    silent = records.reconcile([{**rows[0], "sent": ""}], machine, items).report
    assert silent.items[0].gap.sent is None
    assert silent.verdict["waiting_us"] is None
    captured = [replace(kernel, settings={"sent": "graph"})] * 1000
    assert records.reconcile(rows, machine, captured).report.items[0].gap.sent == "graph"
    book = open_ledger(tmp_path / "ledger.sqlite")
    sealed = records.seal(book, rows, machine)
    settled = records.settle(book, sealed, items, machine).report
    assert settled.items[0].waiting == pytest.approx(7e-3)
    assert settled.verdict["waiting_us"] == pytest.approx(7000)
    assert 0 < settled.verdict["worth_most"]["share"] <= 1
    assert ". host launch overhead: 7 ms in addition." in settled.sentence
    assert "fuse kernels, saves" in settled.sentence
    assert book.verify() == []


def test_a_way_of_sending_that_nobody_knows_is_one_message() -> None:
    rows = [{"op": "add", "n": 10}, {"op": "add", "n": 10, "sent": "grph"}]
    with pytest.raises(InputError, match=r"row 2, column sent\) 'grph': did you mean graph"):
        records.reconcile(rows, rl.machine("h200-sxm"), [Observation("add", "add", (1e-6,))])
    prediction = rl.predict(rl.ops.add(10), rl.machine("h200-sxm"))
    seen = [Observation("add", "add", (1e-6,))]
    with pytest.raises(InputError, match="unknown step of the prediction 'ad'"):
        rl.reconcile(prediction, seen, sent={"ad": "graph"})
    with pytest.raises(InputError, match="way of sending kernels"):
        rl.reconcile(prediction, seen, sent={"add": "mail"})


def test_when_a_measurement_began_is_told_by_the_tool_before_the_file(tmp_path: Path) -> None:
    dated = Observation("a", "a", (1.0,), conditions={"date": "2026-01-02T03:04:05+00:00"})
    assert records.measured_at([dated]) == ("2026-01-02T03:04:05+00:00", "the tool")
    bare = Observation("a", "a", (1.0,), conditions={"date": "yesterday"})
    assert records.measured_at([bare]) == (None, "unknown")
    place = tmp_path / "x"
    place.write_text("")
    assert records.measured_at([bare], [place])[1] == "modification time of the file"


def test_whatif_prices_a_chain(tmp_path: Path) -> None:
    words = ("whatif", "gemm", "m=16", "n=8192", "k=8192", "--on", "h100-sxm", "--do", "quantize=fp8,batch=8")
    told = json.loads(run(*words, "--json").stdout)
    assert len(told["stops"]) == 3
    run(*words, "--out", str(tmp_path / "w.svg"))
    assert (tmp_path / "w.svg").stat().st_size > 1000
    assert "quantize" in run("whatif").output
    assert "changes (--do)" in run(*words[:-2], code=2).output
    assert "program speedup = kernel speedup" in run(*words, "--share", "1").output
    assert "without an op" in run("whatif", "--do", "batch=2", code=2).output
    assert run("whatif", "gemm", "m=1", "n=1", "k=1", "--on", "h100-sxm", "--do", "nonsense=1", code=2).output


def test_gate_fails_on_a_regression_only(tmp_path: Path) -> None:
    def write(name: str, factor: float) -> str:
        items = [{"name": "k", "samples": [factor * (1e-3 + 1e-6 * (place % 7)) for place in range(20)]}]
        path = tmp_path / name
        path.write_text(json.dumps({"schema": 1, "ridgeline": "0", "items": items}))
        return str(path)

    base = write("a.json", 1.0)
    run("gate", base, write("b.json", 1.01))
    assert run("gate", base, write("c.json", 1.2), code=1).output
    assert run("gate", base, str(tmp_path / "none.json"), code=2).output


def test_tables_of_moves_and_flow() -> None:
    assert "fuse with the adjacent kernel" in run("table", "moves", "--on", "h200-sxm").output
    assert "above the ridge point" in run("table", "flow", "--on", "h200-sxm").output


def test_results_are_called_as_the_design_says() -> None:
    prediction = rl.predict(rl.ops.gemm(m=4096, n=4096, k=4096), rl.machine("h200-sxm"))
    report = rl.reconcile(prediction, [Observation("gemm", "gemm", (190e-6,))])
    assert report.sentence.startswith("100 % of 190 us explained: 1 of 1 kernels joined to predictions. compute-bound")


def test_a_block_that_was_observed_is_reconciled_as_it_is() -> None:
    torch = pytest.importorskip("torch")
    with rl.observe("torch") as seen:
        torch.ones(256, 256) @ torch.ones(256, 256)
    step = Step("aten::mm", rl.ops.gemm(m=256, n=256, k=256, dtype="fp32"))
    prediction = rl.predict(Program((step,)), rl.two_number(1e12, 1e11))
    assert [item.name for item in rl.reconcile(prediction, seen).items] == ["aten::mm"]
    assert [item.name for item in rl.reconcile(prediction, iter(seen)).items] == ["aten::mm"]
    with pytest.raises(InputError, match="nothing to reconcile"):
        rl.reconcile(prediction, iter(()))


# -- nothing is committed that cannot be shown --------------------------------------------------------------------------


def test_a_seal_or_settlement_that_cannot_be_shown_is_not_committed(
    cases: Path, seen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path / "ledger.sqlite"
    name = seal(cases, book)

    def fails(*_words: Any) -> None:
        raise InputError("cannot be shown")

    monkeypatch.setattr("ridgeline.render.tables.gaps.seal_answer", fails)
    monkeypatch.setattr("ridgeline.render.tables.gaps.settlement_answer", fails)
    for words in (("seal", str(cases), "--on", "h200-sxm"), ("reconcile", str(seen), "--seal", name)):
        told = run(*words, "--ledger", str(book), code=2)
        assert (told.stdout, "cannot be shown" in told.stderr) == ("", True)
    folder = tmp_path / "none" / "x.md"
    run("reconcile", str(seen), "--seal", name, "--ledger", str(book), "--out", str(folder), code=2)
    assert open_ledger(book).head()[0] == 1


def test_an_answer_that_nobody_takes_is_still_recorded(cases: Path, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    words = [sys.executable, "-m", "ridgeline", "seal", str(cases), "--on", "h200-sxm", "--ledger", str(book)]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert "the record was added to the ledger: see it with `ridgeline ledger show`" in ended.stderr
    assert open_ledger(book).head()[0] == 1


def test_a_row_with_a_list_is_no_case(tmp_path: Path) -> None:
    lists = tmp_path / "lists.json"
    lists.write_text('[{"op": "gemm", "name": "a", "m": [8, 16], "n": 8, "k": 8}]')
    told = run("seal", str(lists), "--on", "h200-sxm", "--ledger", str(tmp_path / "l.sqlite"), code=2)
    assert "row 1, column m" in told.output
    several = rl.predict(Program((Step("a", rl.ops.gemm([8, 16], 8, 8)),)), rl.machine("h200-sxm"))
    with pytest.raises(InputError, match="row 1: has lists of sizes, 2 cases in one"):
        records.rows_of(several)
    assert not (tmp_path / "l.sqlite").exists()


def test_a_clock_that_is_behind_is_said(cases: Path, tmp_path: Path) -> None:
    book = tmp_path / "ledger.sqlite"
    ahead = open_ledger(book, lambda: datetime(2100, 1, 1, tzinfo=UTC))
    ahead.seal([{"name": "a", "time_us": 1.0}], "text", "h200-sxm")
    told = run("seal", str(cases), "--on", "h200-sxm", "--ledger", str(book))
    assert "the clock is behind an earlier record of 2100-01-01T00:00:00" in told.stderr
    told = run("ledger", "verify", "--ledger", str(book))
    assert told.output.startswith("intact: 2 records, head ")
    assert "clock" in told.output
