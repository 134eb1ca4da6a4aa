"""Reports: the document, the verdict over a program, sentences made of the data."""

from __future__ import annotations

import json

import pytest
from gap_samples import H200, observation

from ridgeline.core.documents import to_document
from ridgeline.gaps.report import Report, reconcile
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops


def test_the_report_as_a_document(recorded: Report) -> None:
    document = json.loads(json.dumps(to_document(recorded), allow_nan=False))
    keys = {
        "name", "predicted_us", "measured_us", "floor_us", "vertical_gap", "horizontal_gap", "excess_bytes",
        "excess_flops", "bound_predicted", "bound_observed", "accounting", "advice",
    }  # fmt: skip
    for item in document["items"]:
        assert keys <= set(item)
        assert sum(entry["us"] for entry in item["accounting"]) == pytest.approx(item["measured_us"])
        for row in item["advice"]:
            assert {"move", "direction", "gain_us", "evidence"} <= set(row)
    assert {"items", "unmatched", "sealed", "sentence"} <= set(document)


def test_the_verdict_over_all_of_it(recorded: Report) -> None:
    verdict = recorded.verdict
    assert verdict["measured_us"] == pytest.approx(sum(item.gap.measured for item in recorded.items) * 1e6)
    assert sum(row["share"] for row in verdict["holders"]) == pytest.approx(1)
    assert verdict["holders"][0]["name"] == "gemm_fp32_4096"
    assert verdict["worth_most"]["name"] == "gemm_fp32_4096"
    assert sum(verdict["regimes"].values()) == pytest.approx(1)
    assert sum(verdict["causes"].values()) == pytest.approx(verdict["measured_us"])
    assert recorded.sentence.startswith(
        "100 % of 7.62 ms explained: 14 of 14 kernels joined to predictions. compute-bound: "
    )
    assert verdict["median_error"] < 0.1
    gaps = recorded.largest_gaps
    assert gaps[0]["name"] == "gemm_fp32_4096"
    assert [row["gap_us"] for row in gaps] == sorted((row["gap_us"] for row in gaps), reverse=True)
    assert gaps[0]["move"] == "use tensor cores"


def test_sentences_are_made_of_the_data(recorded: Report) -> None:
    told = {item.name: item.sentence for item in recorded.items}
    assert told["triad_fp32_2^27"] == "triad_fp32_2^27: memory-bound (HBM), 99 % of roofline; at the roofline."
    assert told["strided_copy_fp32"] == (
        "strided_copy_fp32: L2-bound (predicted: HBM-bound), 26 % of roofline; 335 us above the roofline, mostly below "
        "peak rate on the limiting unit (234 us); coalesce global-memory accesses (strided access)."
    )
    assert told["tiny_relu"].startswith("tiny_relu: launch-bound, ")
    assert "instruction-issue-bound (predicted: HBM-bound)" in told["softmax_bf16"]
    assert not any("-" in text.partition(" above the roofline")[0].split("; ")[-1][:1] for text in told.values())


def test_times_alone_say_so() -> None:
    work = ops.stream_triad(1e8, dtype="fp32")
    near = reconcile(predict(work, H200), [observation(1.2e9 / 4.4e12 * 1.1, "stream_triad")])
    item = near.items[0]
    assert (item.gap.regime.bound, item.gap.regime.basis, item.gap.regime.confirmed) == (
        "memory",
        "time only",
        True,
    )
    assert to_document(item)["vertical_gap"] is None
    far = reconcile(predict(work, H200), [observation(1.2e9 / 4.4e12 * 5, "stream_triad")]).items[0]
    assert far.gap.regime.bound == "latency"
    assert {advice.status for advice in far.advice} == {"possible"}
    assert far.next is None
    assert "cause unknown without counters: ridgeline profile --with ncu" in far.sentence
