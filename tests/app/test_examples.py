"""The recorded examples: planted faults are on top of the advice, prices hold against the cures, the ledger is whole."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from ridgeline.core.documents import to_document
from ridgeline.core.units import parse
from ridgeline.gaps import settle as records
from ridgeline.gaps.kernels import report_of_kernels
from ridgeline.gaps.ledger import open_ledger
from ridgeline.gaps.report import Report, reconcile
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs import cases
from ridgeline.render.charts.changes import versions

EXAMPLES = Path(__file__).parents[2] / "examples"
FAULTS, PATH = EXAMPLES / "faults", EXAMPLES / "gemm_path"
RECORD = FAULTS / "record"
H200 = load("h200-sxm")

PLANTED = {
    "uncoalesced_copy": "uncoalesced",
    "naive_gemm": "no tiling",
    "bank_conflicts": "bank conflicts",
    "low_occupancy": "low occupancy",
    "spills": "spills",
    "tiny_kernels": "tiny kernels",
    "unfused.norm": "unfused neighbour",
    "fp32_gemm": "no tensor cores",
    "contended_atomics": "contended atomics",
    "contended_histogram": "contended atomics",
    "hot_slice": "hot slice",
    "tail_wave": "tail wave",
    "legacy_tensor": "legacy tensor path",
    "thin_loads": "thin loads",
    "few_in_flight": "few in flight",
    "divergence": "divergence",
    "redundant_loads": "repeated loads",
    "strided_gather": "uncoalesced",
    "no_prefetch": "no overlap",
    "excess_flops": "extra flops",
    "index_math": "integer overhead",
    "barriers": "barriers",
    "few_blocks": "few blocks",
    "small_blocks": "small blocks",
}
CURED = (
    "coalesced_copy", "tiled_gemm", "padded", "full_occupancy", "in_registers", "one_kernel", "fused", "tf32_gemm",
    "block_sums", "shared_histogram", "shared_table", "full_wave", "current_tensor", "wide_loads", "many_in_flight",
    "convergence", "single_load", "dense_gather", "prefetch", "lower_only", "grid_index", "warp_sums", "split_rows",
    "large_blocks",
)  # fmt: skip
# What is true of a cure beside the fault that it undoes: fp32 on the vector units; one 4-byte load at a time.
ALSO = {"tiled_gemm": {"no tensor cores"}, "full_occupancy": {"few in flight"}, "large_blocks": {"few in flight"}}
HEALTHY = ("gemm_bf16", "add", "softmax", "layernorm", "attention", "relu")


def script(path: Path) -> ModuleType:
    """A script of the examples as a module."""
    name = f"example_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SETTLE, DRAW = script(FAULTS / "settle.py"), script(PATH / "draw.py")


@pytest.fixture(scope="module")
def report() -> Report:
    """The recorded profiles against the committed cases, as the code explains them today."""
    seen = [item for name in ("kernels.csv", "trace.json.gz") for item in observe.load(RECORD / name)]
    return records.reconcile(cases.read(FAULTS / "cases.csv"), H200, seen).report


def test_every_case_was_run_and_joined_by_its_range(report: Report) -> None:
    rows = cases.read(FAULTS / "cases.csv")
    assert {row["name"] for row in rows} == {*PLANTED, *CURED, *HEALTHY, "unfused.linear"}
    assert [item.name for item in report.items] == [row["name"] for row in rows]
    assert {item.gap.how for item in report.items} == {"name", "nvtx"}
    assert report.unmatched["predicted"] == []


@pytest.mark.parametrize("step", PLANTED)
def test_the_planted_fault_is_the_top_advice(report: Report, step: str) -> None:
    top = next(item.top for item in report.items if item.name == step)
    assert top is not None
    assert (top.rule, top.status) == (PLANTED[step], "shown")


def test_cures_and_healthy_kernels_are_not_accused_of_planted_faults(report: Report) -> None:
    for item in report.items:
        if item.name in CURED + HEALTHY:
            said = {advice.rule for advice in item.advice if advice.status == "shown"} & set(PLANTED.values())
            assert said == ALSO.get(item.name, set()), item.name


def test_all_regimes_are_among_the_kernels(report: Report) -> None:
    assert {item.gap.regime.bound for item in report.items} == {"compute", "memory", "overhead", "latency"}
    confirmed = {item.name for item in report.items if item.gap.regime.confirmed}
    assert {"gemm_bf16", "add", "attention", "relu", "coalesced_copy", "tf32_gemm"} <= confirmed


def test_two_thousand_launches_are_one_run_of_their_step(report: Report) -> None:
    found = next(item.gap for item in report.items if item.name == "tiny_kernels")
    assert found.measurement.launches == 2000
    # 1 us and a little each
    assert 2e-3 < found.measured < 3e-3


def test_prices_are_within_twice_of_what_the_cures_brought_and_most_are_nearer(report: Report) -> None:
    rows = SETTLE.gains(report, SETTLE.times(RECORD))
    assert {row["fault"]: row["rule"] for row in rows} == PLANTED
    for row in rows:
        assert 0.5 < float(str(row["ratio"])) < 2, row
    near = [row for row in rows if 1 / 1.5 <= float(str(row["ratio"])) <= 1.5]
    assert len(near) >= 0.75 * len(rows)


def test_most_faults_are_named_without_any_case() -> None:
    """By the counters alone; that a product computes twice what is needed only its definition shows."""
    items = [item for item in observe.load(RECORD / "kernels.csv") if item.name in PLANTED]
    tops = {kernel.name: kernel.top for kernel in report_of_kernels(items, H200).kernels}
    named = {name for name, top in tops.items() if top is not None and top.shown and top.rule == PLANTED[name]}
    assert set(tops) - named == {"excess_flops", "unfused.norm"}


def test_the_host_is_promised_only_where_it_sent_each_kernel(report: Report) -> None:
    """Without the host the promise for the loop would be that for the graph, a sixth of what merging brought."""
    found = SETTLE.gains(report, SETTLE.times(RECORD))
    graph, loop = (row for row in found if row["fault"] == "tiny_kernels")
    assert [row["sent"] for row in (graph, loop)] == ["graph", "one by one"]
    assert {row["of_it_host_us"] for row in found if row is not loop} == {"0.0"}
    device, host, brought = (
        float(str(row[name]))
        for row, name in ((graph, "predicted_gain_us"), (loop, "of_it_host_us"), (loop, "measured_gain_us"))
    )
    assert device / brought < 0.2
    assert float(str(loop["predicted_gain_us"])) == pytest.approx(device + host, abs=0.2)
    item = next(item for item in report.items if item.name == "tiny_kernels")
    assert item.gap.sent == "one by one"  # the trace shows a launch for each
    assert item.gap.host is not None
    assert item.gap.waiting == pytest.approx(2000 * item.gap.host.each - item.gap.measured)


def test_the_table_of_gains_is_that_of_the_record(report: Report) -> None:
    """The committed numbers follow from the committed files; a better machine file may move a price a little."""
    measured = {row["name"]: float(row["time_us"]) for row in table(RECORD / "times.csv")}
    rows = table(RECORD / "gains.csv")
    again = SETTLE.gains(report, SETTLE.times(RECORD))
    assert len(rows) == len(again)
    for row, now in zip(rows, again, strict=True):
        before = sum(measured[name] for name in row["before"].split(" + "))
        brought = before - measured[row["after"]]
        assert float(row["measured_gain_us"]) == pytest.approx(brought, abs=0.1)
        assert float(row["ratio"]) == pytest.approx(float(row["predicted_gain_us"]) / brought, abs=0.002)
        assert float(row["predicted_gain_us"]) == pytest.approx(float(str(now["predicted_gain_us"])), rel=0.12)
    told = {item["name"]: item["advice"][0] for item in json.loads((RECORD / "report.json").read_text("utf-8"))["items"] if item["advice"]}  # fmt: skip
    for row in rows:
        assert told[row["fault"]]["rule"] == row["rule"]
        promised = told[row["fault"]]["device_gain_us"] + float(row["of_it_host_us"])
        assert promised == pytest.approx(float(row["predicted_gain_us"]), abs=0.2)


def test_the_ledger_is_whole_and_everything_in_it_was_sealed_before_it_ran() -> None:
    book = open_ledger(RECORD / "ledger.sqlite")
    (head,) = [line for line in (RECORD / "predictions.md").read_text("utf-8").splitlines() if line.startswith("Head")]
    assert book.verify(expect=head.split("`")[1]) == []
    told = book.report()
    assert (told["seals"], told["predictions"], told["settled"], told["open"]) == (1, 55, 55, 0)
    assert told["unsealed"]["cases"] == 0
    sealed = {row["name"] for row in book.export()[0]["content"]["predictions"]}
    assert sealed == {row["name"] for row in cases.read(FAULTS / "cases.csv")}


def test_the_committed_files_stay_small() -> None:
    limits = {"kernels.csv": 300e3, "report.html": 1e6, "trace.json.gz": 400e3, "ledger.sqlite": 100e3}
    assert [name for name, most in limits.items() if (RECORD / name).stat().st_size > most] == []


def test_the_path_of_the_product_crosses_the_ridge_and_zigzags() -> None:
    fp32, bf16 = DRAW.path(PATH / "record", "fp32"), DRAW.path(PATH / "record", "bf16")
    assert [item.name for item in fp32] == ["naive", "tiled", "blocked", "pipelined", "library"]
    assert [item.name for item in bf16] == ["naive", "tiled", "pipelined", "library"]
    for path in (fp32, bf16):
        assert sorted(path, key=lambda item: -item.time) == path  # every version is faster than the one before
    ridge = H200.peak("tensor.bf16").value / H200.bandwidth("hbm").value
    assert bf16[0].flops / bf16[0].bytes < ridge < bf16[1].flops / bf16[1].bytes
    assert fp32[1].flops / fp32[1].bytes < fp32[0].flops / fp32[0].bytes < fp32[2].flops / fp32[2].bytes
    chart = versions(H200, bf16, engine="tensor.bf16")
    assert [arrow.label for arrow in chart.arrows] == [f"{a.time / b.time:.2g}x" for a, b in pairwise(bf16)]  # fmt: skip
    rows = {row["name"]: row for row in table(PATH / "record" / "versions.csv")}
    timed = {row["name"]: float(row["time_us"]) for row in table(PATH / "record" / "times.csv")}
    assert set(rows) == set(timed)
    for name, row in rows.items():
        assert float(row["time_us"]) == pytest.approx(timed[name], rel=0.05), name  # counters and events agree


def test_the_report_names_the_next_stage_of_the_path() -> None:
    """Naive, then tiled, then larger tiles; each price within twice of what that stage brought."""
    rows = cases.read(PATH / "cases.csv")
    seen = observe.load(PATH / "record" / "kernels.csv")
    found = records.reconcile(rows, H200, seen).report
    items = {item.name: item for item in found.items}
    for name, rule, after in (
        ("fp32_naive", "no tiling", "fp32_blocked"),
        ("fp32_tiled", "small tiles", "fp32_blocked"),
        ("bf16_naive", "no tiling", "bf16_tiled"),
        ("bf16_tiled", "small tiles", "bf16_pipelined"),
    ):
        top = items[name].top
        assert top is not None
        assert (top.rule, top.status) == (rule, "shown")
        assert top.gain is not None
        assert 0.5 < top.gain / (items[name].measured - items[after].measured) < 2


def test_the_page_of_the_path_says_what_the_report_says() -> None:
    seen = observe.load(PATH / "record" / "kernels.csv")
    items = to_document(records.reconcile(cases.read(PATH / "cases.csv"), H200, seen).report)["items"]
    lines = (PATH / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if re.match(r"\| (fp32|bf16) \d", line)]
    for (version, time, intensity, _, share, told), item in zip(rows, items, strict=True):
        assert item["name"] == "_".join(re.findall(r"^(\w+) \d (\w+)", version)[0])
        assert parse(time, "s") == pytest.approx(item["measured_us"] * 1e-6, rel=0.003), version
        assert parse(intensity, "flop/B") == pytest.approx(item["intensity_observed"], rel=0.02), version
        assert float(share.removesuffix(" %")) == pytest.approx(100 * item["share_of_roof"], abs=0.6), version
        top = item["advice"][0]
        move, _, gain = told.partition(", ")
        assert move == ("" if top["status"] == "shown" else "possible: ") + top["move"], version
        assert bool(gain) == (top["gain_us"] is not None), version
        assert not gain or parse(gain, "s") == pytest.approx(top["gain_us"] * 1e-6, rel=0.005), version


def test_a_profile_of_other_kernels_does_not_pass_for_the_record() -> None:
    """The assertions above can fail: without its counters the copy's fault is possible, not shown."""
    seen = [replace(item, counters={}, bytes={}, flops={}) for item in observe.load(RECORD / "kernels.csv")]
    rows = [row for row in cases.read(FAULTS / "cases.csv") if row["name"] == "uncoalesced_copy"]
    mine = [item for item in seen if item.name == "uncoalesced_copy"]
    (item,) = reconcile(predict(cases.program(rows), H200), mine).items
    assert {advice.status for advice in item.advice} == {"possible"}
