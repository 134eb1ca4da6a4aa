"""Uploads: recognised and answered as the command line does, refused with one message, never stored."""

import gzip
import json
import tempfile
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgeline.app.cli import main
from ridgeline.app.web.answers import profile, recent, upload
from ridgeline.app.web.answers.recent import Asked
from ridgeline.app.web.answers.upload import Upload
from ridgeline.app.web.server import make_app
from ridgeline.core.errors import RidgelineError
from ridgeline.gaps.kernels import report_of_kernels
from ridgeline.gaps.steps.report import program_report
from ridgeline.machines.load import load
from ridgeline.profilers.load import load as load_profile
from ridgeline.profilers.load import timeline
from ridgeline.render.charts.kernels import kernels_chart

FIXTURES = Path(__file__).parents[1] / "fixtures"
RAW = FIXTURES / "ncu" / "h200_raw.csv"
EXAMPLES = Path(profile.__file__).parents[1] / "static" / "examples"
CASES = b"name,op,m,n,k,rows,cols,dtype\nproduct,gemm,8192,8192,8192,,,bf16\nsoft,softmax,,,,16384,4096,bf16\n"
OCTETS = {"content-type": "application/octet-stream"}


def command(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(make_app(), base_url="http://127.0.0.1", raise_server_exceptions=False)


def ask(client, content, path="profile", **params):
    return client.post(f"/api/{path}", params=params, content=content, headers=OCTETS)


@pytest.fixture(scope="module")
def raw(client):
    reply = ask(client, RAW.read_bytes(), name="h200_raw.csv")
    assert reply.status_code == 200
    return reply.json()


def test_a_profile_is_answered_as_the_command_does(raw):
    report = report_of_kernels(load_profile(RAW), load("h200-sxm"))
    assert (raw["kind"], raw["machine"], raw["guessed"]) == ("kernels", "h200-sxm", True)
    printed = command("import", str(RAW), "--on", "h200-sxm").output
    assert raw["answer"] == printed.splitlines()[: len(raw["answer"])]
    assert [row[0] for row in raw["table"]["cells"]] == [kernel.name for kernel in report.kernels]
    keys = {point["key"]: point["name"] for point in raw["chart"]["points"] if point["role"] == "observed"}
    assert all(report.kernels[int(key)].name == name for key, name in keys.items())
    assert len(keys) == sum(bool(kernel.gap.target.flops) for kernel in report.kernels)


def test_a_card_has_both_gaps_and_accounts_for_every_microsecond(raw):
    report = report_of_kernels(load_profile(RAW), load("h200-sxm"))
    for kernel, card in zip(report.kernels, raw["cards"], strict=True):
        vertical, horizontal = card["gaps"]
        assert (vertical["value"] == "not known") == (kernel.gap.vertical is None)
        assert (horizontal["value"] == "not known") == (kernel.gap.horizontal is None)
        *causes, measured = card["waterfall"]["bars"]
        drawn = sum(bar["details"]["us"] for bar in causes)
        small = 0.005 * len(kernel.gap.accounting) * measured["value"]  # causes too small to draw
        assert abs(drawn / 1e6 - measured["value"]) <= small
        assert [move["move"] for move in card["moves"]] == [item.move for item in kernel.advice]
    product = raw["cards"][0]  # fp32 on the vector units, whose op its name spells
    gap = report.kernels[0].gap
    factors = [text for _, text in product["gaps"][1]["factors"]]
    assert factors == [f"{gap.excess_bytes:.1f}x", f"{1 / gap.excess_flops:.1f}x"]
    assert gap.horizontal == pytest.approx(gap.excess_bytes / gap.excess_flops)
    (arrow,) = product["arrows"]
    end = report.kernels[0].advice[0].end
    assert arrow["end"] == pytest.approx([end.intensity, end.rate])
    assert product["moves"][0]["number"] == 1


def test_a_trace_is_answered_as_reconcile_does(client):
    path = FIXTURES / "torch" / "handmade_gpu.json"
    reply = ask(client, gzip.compress(path.read_bytes()), name="t.json.gz").json()
    report = program_report(timeline(path), load("h200-sxm"))
    assert reply["kind"] == "steps"
    assert reply["answer"] == list(report.answer)
    assert [row[0] for row in reply["table"]["cells"]] == [item.name for item in report.by_time]
    assert len(reply["steps"]) == len(report.moves)
    assert reply["phases"]["bars"]
    card = ask(client, path.read_bytes(), "profile/card", place=0).json()
    assert card["name"] == report.by_time[0].name
    assert card["gaps"][0]["value"] == "not known"  # a trace counts nothing


def test_cases_are_predicted_for_the_machine_that_is_chosen(client):
    assert "Which machine" in ask(client, CASES).json()["question"]
    reply = ask(client, CASES, machine="h200-sxm").json()
    assert reply["kind"] == "cases"
    assert [row[0] for row in reply["table"]["cells"]] == ["product", "soft"]
    card = ask(client, CASES, "profile/card", machine="h200-sxm", place=0).json()
    line = command("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "h200-sxm", "--dtype", "bf16").output
    assert card["sentence"] == line.splitlines()[0]
    as_json = json.dumps([{"op": "gemm", "m": 64, "n": 64, "k": 64, "dtype": "fp32"}]).encode()
    assert ask(client, as_json, machine="h200-sxm").json()["count"] == 1


def test_measured_cases_are_reconciled(client):
    rows = b"name,op,m,n,k,dtype,time_us\nproduct,gemm,8192,8192,8192,bf16,1500\n"
    reply = ask(client, rows, machine="h200-sxm").json()
    assert reply["kind"] == "report"
    assert reply["cards"][0]["facts"][0] == ["measured", "1.5 ms"]
    assert reply["cards"][0]["waterfall"]["bars"][-1]["value"] == pytest.approx(1.5e-3)


def test_results_of_ridgeline_are_shown_again(client, tmp_path):
    cases = tmp_path / "cases.csv"
    cases.write_bytes(CASES.replace(b"product", b"gemm_bf16_8192"))
    words = ("reconcile", str(RAW), "--cases", str(cases), "--on", "h200-sxm", "--out", str(tmp_path / "report.json"))
    assert command(*words).exit_code == 0
    saved = (tmp_path / "report.json").read_bytes()
    reply = ask(client, saved).json()
    assert (reply["kind"], reply["machine"]) == ("report", "h200-sxm")
    first = json.loads(saved)["items"][0]
    card = next(card for card in reply["cards"] if card["name"] == first["name"])
    assert card["sentence"] == first["sentence"]
    assert card["gaps"][0]["value"] == f"{first['vertical_gap']:.1f}x"
    assert command("chart", "dl", "--on", "h200-sxm", "--out", str(tmp_path / "chart.json")).exit_code == 0
    chart = (tmp_path / "chart.json").read_bytes()
    assert ask(client, chart).json()["chart"]["title"] == json.loads(chart)["title"]


def test_the_report_is_one_page_and_the_data_are_those_of_the_command(client):
    page = ask(client, RAW.read_bytes(), "profile/report", name="h200_raw.csv")
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.text.startswith("<!DOCTYPE html>")
    assert "gemm_fp32_4096" in page.text
    data = ask(client, RAW.read_bytes(), "profile/report", form="json").json()
    assert data == json.loads(command("import", str(RAW), "--on", "h200-sxm", "--json").stdout)


FORGED_CHART = {"schema": "ridgeline.chart/1", "kind": "x", "title": "t", "x": {"label": "a"}, "y": {"label": "b"}}
BAD = {
    "empty": (b" \n", "empty"),
    "words": (b"hello world", "no known format"),
    "binary": (bytes(range(256)) * 4, "no known format"),
    "ncu report": (b"NVR\x00" + b"x" * 100, "export it"),
    "cut gzip": (gzip.compress(RAW.read_bytes())[:-200], "cut off"),
    "broken gzip": (b"\x1f\x8b" + b"x" * 100, "cannot be unpacked"),
    "cut json": (b'[{"name": "a", "time_us": 1', "JSON"),
    "forged item": (b'{"ridgeline": "1", "items": [{"name": 3, "measured_us": "x"}], "sentence": ""}', "measured_us"),
    "no items": (b'{"ridgeline": "1", "items": [], "sentence": ""}', "without any item"),
    "newer chart": (b'{"schema": "ridgeline.chart/9"}', "not a chart"),
    "forged chart": (json.dumps({**FORGED_CHART, "points": [{"x": {}, "bogus": 1}]}).encode(), "no chart"),
    "forged axis": (json.dumps({**FORGED_CHART, "x": 3}).encode(), "no chart"),
    "text as place": (json.dumps({**FORGED_CHART, "points": [{"x": "<img>", "y": None}]}).encode(), "no chart"),
    "unknown op": (b"op,m\nnothing,3\n", None),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_file_gets_one_message_without_a_path(client, name):
    content, message = BAD[name]
    reply = ask(client, content, name=f"{name}.dat", machine="h200-sxm")
    if message is None:
        assert "unknown op" in str(reply.json()["warnings"])
        return
    assert reply.status_code == 400, reply.text[:300]
    assert message in reply.json()["error"]
    assert tempfile.gettempdir() not in reply.text


def test_names_of_the_page_reach_no_file(client, tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text("name = 'secret'")
    rows = f"op,m,n,k,dtype,machine\ngemm,64,64,64,fp32,{secret}\n".encode()
    assert "unknown machine" in ask(client, rows).json()["error"]
    assert ask(client, CASES, machine=str(secret)).status_code == 400
    assert ask(client, RAW.read_bytes(), name=f"../../{secret}").json()["machine"] == "h200-sxm"
    saved = json.dumps({"ridgeline": "1", "machine": str(secret), "items": [{"name": "a", "measured_us": 1}], "sentence": "s"})  # fmt: skip
    assert ask(client, saved.encode()).json()["machine"] is None


def test_nothing_is_left_behind(client, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ask(client, RAW.read_bytes()).status_code == 200
    assert ask(client, b"hello world").status_code == 400
    assert list(tmp_path.iterdir()) == []


def test_a_bomb_is_refused_before_it_is_read(client, monkeypatch):
    monkeypatch.setattr(upload, "MAX_UNPACKED", 1 << 20)
    reply = ask(client, gzip.compress(b"a,b\n" * (1 << 19)), name="bomb.csv.gz")
    assert reply.status_code == 400
    assert "unpacks to more than 1 MiB" in reply.json()["error"]


def test_a_place_outside_of_the_table_is_refused(client):
    assert "no kernel 100" in ask(client, RAW.read_bytes(), "profile/card", place=99).json()["error"]
    assert ask(client, RAW.read_bytes(), "profile/card", place=-1).status_code == 422


def test_the_page_is_answered_while_a_file_is_read(client, monkeypatch):
    started, may_end = threading.Event(), threading.Event()

    def slow(asked):
        started.set()
        assert may_end.wait(60)
        return {"answer": []}

    monkeypatch.setattr(profile, "answered", slow)
    with TestClient(make_app(), base_url="http://127.0.0.1") as busy:
        reader = threading.Thread(target=ask, args=(busy, b"x"))
        reader.start()
        assert started.wait(60)
        assert busy.get("/api/lessons").status_code == 200
        may_end.set()
        reader.join()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.integers(0, 8000), junk=st.binary(max_size=12), keep=st.integers(0, 8000))
def test_damaged_files_raise_nothing_but_our_own_errors(place, junk, keep):
    """A recorded profile and a saved report with bytes replaced and the end cut off."""
    report = json.dumps({"ridgeline": "1", "machine": "h200-sxm", "sentence": "s", "items": [{"name": "a", "measured_us": 3.0, "flops": 1e9, "bytes": 1e6, "engine": "tensor.bf16", "accounting": [{"cause": "x", "us": 3}], "advice": [{"move": "m", "end": {"intensity": 3, "rate": 1e12}}]}]}).encode()  # fmt: skip
    for content in (RAW.read_bytes()[: 4000 + keep], report, CASES):
        damaged = content[:place] + junk + content[place + len(junk) :]
        try:
            answer = profile.answered(Asked(Upload(damaged), "h200-sxm"))
        except RidgelineError:
            continue
        json.dumps(answer)


def many_kernels(count: int) -> bytes:
    """A table of distinct kernels under the roof of an H200, all over the plane."""
    lines = ["name,time_us,flops.tensor.bf16,bytes.hbm"]
    for index in range(count):
        intensity, seconds = 2.0 ** (index % 97 / 10), 1e-6 * (1 + index % 1009)
        moved = 2e12 * seconds * (0.1 + index % 31 / 40)
        lines.append(f"kernel_{index},{seconds * 1e6:.3f},{moved * intensity:.6g},{moved:.6g}")
    return "\n".join(lines).encode()


def test_later_questions_need_not_send_the_file_again(client, raw, monkeypatch):
    token = {"token": "a" * 32, "name": "h200_raw.csv"}
    assert ask(client, b"", **token).status_code == 410  # the page then sends it
    assert ask(client, RAW.read_bytes(), **token).json() == raw
    read: list[Path] = []
    monkeypatch.setattr(profile, "load", read.append)
    assert client.get("/api/profile/progress", params=token).json() == {"done": 13, "total": 14}
    assert ask(client, b"", "profile/card", place=3, **token).json() == raw["cards"][3]
    assert ask(client, b"", machine="a100-sxm-80gb", **token).json()["machine"] == "a100-sxm-80gb"
    assert ask(client, b"", **token).json() == raw
    assert read == []
    assert ask(client, b"hello world", token="b").status_code == 400
    assert ask(client, b"", token="b").status_code == 410


@pytest.mark.parametrize(("content", "found"), [(b"[peak]\nx = 1\n", "is TOML, as machine files are"), (b"hello", "it starts with 'hello'")])  # fmt: skip
def test_other_files_are_refused_with_what_is_read(client, content, found):
    reply = ask(client, content, name="mine.toml")
    assert reply.status_code == 400
    text = reply.json()["error"]
    assert found in text
    assert "the page reads an Nsight Compute CSV" in text
    assert "--" not in text


def test_files_are_forgotten(monkeypatch):
    held = recent.Recent()
    for token in "abcde":
        held.reading(token, b"x").source = print
    with pytest.raises(recent.Forgotten):
        held.reading("a", b"")  # newer ones need the room
    assert held.reading("b", b"").source is print
    assert held.reading("b", b"x").source is print  # the same file again
    assert held.reading("b", b"y").source is None  # another file under a token that was used
    monkeypatch.setattr(recent, "MAX_BYTES", 3)
    held.reading("large", b"12345")
    with pytest.raises(recent.Forgotten):
        held.reading("c", b"")
    monkeypatch.setattr(recent, "FORGET_AFTER", 0.0)
    held.reading("old", b"x").source = print
    for _ in range(1000):
        if "old" not in held._readings:
            break
        time.sleep(0.01)
    assert "old" not in held._readings


def test_a_question_while_a_file_is_being_read_does_not_forget_it():
    held = recent.Recent()
    being_read = held.reading("a", b"x")
    with pytest.raises(recent.Forgotten):
        held.reading("a", b"")
    assert held.reading("a", b"x") is being_read


def test_many_kernels_have_dots_and_a_limited_table(client):
    content = many_kernels(800)
    reply = ask(client, content, machine="h200-sxm").json()
    assert reply["count"] == 800
    assert len(reply["table"]["cells"]) == profile.MAX_ROWS
    assert sum(point["role"] == "observed" for point in reply["chart"]["points"]) == 800
    last = ask(client, content, "profile/card", machine="h200-sxm", place=799).json()
    (shown,) = [point for point in reply["chart"]["points"] if point["key"] == "799" and point["role"] == "observed"]
    assert last["name"] == shown["name"]


def test_the_examples_are_the_recorded_fixtures():
    pairs = {"h200_kernels.csv": RAW, "h200_faults.csv": FIXTURES / "ncu" / "h200_faults.csv", "h200_resnet.json.gz": FIXTURES / "torch" / "h200_resnet.json.gz"}  # fmt: skip
    assert set(pairs) == {path.name for path in EXAMPLES.iterdir()} - {"README.md"}
    assert all((EXAMPLES / name).read_bytes() == path.read_bytes() for name, path in pairs.items())


def test_kernels_of_one_name_are_dots_of_their_own():
    rows = b"name,time_us,flops.tensor.bf16,bytes.hbm,grid\n" + b"".join(b"same,%d,1e9,1e6,%d\n" % (10 + n, n) for n in range(3))  # fmt: skip
    with upload.upload_file(Upload(rows)) as path:
        report = report_of_kernels(load_profile(path), load("h200-sxm"))
    points = [point for point in kernels_chart(report).points if point.role == "observed"]
    assert [point.key for point in points] == [str(place) for place in range(len(report.kernels))]
