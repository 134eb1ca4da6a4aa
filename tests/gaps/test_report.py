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
    assert "because" in recorded.sentence
    assert "the gap is" in recorded.sentence
    assert "next is to use a faster engine in gemm_fp32_4096" in recorded.sentence


def test_sentences_are_made_of_the_data(recorded: Report) -> None:
    told = {item.name: item.sentence for item in recorded.items}
    assert told["triad_fp32_2^27"].startswith(
        "triad_fp32_2^27: fast because hbm is busy for 99% of the time, as predicted"
    )
    assert "slow because l2 is busy for 97% of the time, where hbm was predicted" in told["strided_copy_fp32"]
    assert "launching takes" in told["tiny_relu"]
    assert all("; the gap is " in text and "; next is " in text for text in told.values())


def test_times_alone_say_so() -> None:
    work = ops.stream_triad(1e8, dtype="fp32")
    near = reconcile(predict(work, H200), [observation(1.2e9 / 4.4e12 * 1.1, "stream_triad")])
    item = near.items[0]
    assert (item.gap.regime.bound, item.gap.regime.basis, item.gap.regime.confirmed) == (
        "memory",
        "the time alone",
        True,
    )
    assert to_document(item)["vertical_gap"] is None
    far = reconcile(predict(work, H200), [observation(1.2e9 / 4.4e12 * 5, "stream_triad")]).items[0]
    assert far.gap.regime.bound == "underused"
    assert {advice.status for advice in far.advice} == {"possible"}
    assert "perhaps" in far.sentence
