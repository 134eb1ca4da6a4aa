"""Exercises of lessons 8 to 14 on the server: values checked against their closed forms and against recordings."""

import csv
from pathlib import Path

import pytest

from ridgeline.app.web.answers import exercises_drill as drill
from ridgeline.app.web.answers import exercises_extended as extended
from ridgeline.app.web.answers import exercises_formats as formats
from ridgeline.app.web.answers.exercises_regimes import regime
from ridgeline.app.web.answers.exercises_stages import stages
from ridgeline.core.errors import InputError

RECORD = Path(__file__).parents[2] / "examples" / "gemm_path" / "record" / "versions.csv"
LAYER = "linear batch=1 in_features=4096 out_features=4096"
A100 = "a100-sxm-80gb"


def test_narrower_arithmetic_moves_away_from_the_ridge_and_narrower_weights_towards_it():
    every = formats.precision(LAYER, A100, ["fp32", "int4"], "int4")["factors"]
    assert every["bytes"] == pytest.approx(8, rel=0.01)
    assert every["ridge"] == pytest.approx(64)
    assert every["distance"] == pytest.approx(8, rel=0.01)
    stored = formats.weights(LAYER, A100, "int4_g128")["factors"]
    assert stored["ridge"] == 1
    assert stored["distance"] < 0.3


@pytest.mark.parametrize("side", [8, 128, 256])
def test_tiles_move_two_cubes_over_the_side_and_the_result(side):
    n = 4096
    assert formats.tiling(n, A100, [side], side)["bytes"] == 4 * (2 * n**3 / side + n**2)


def test_stages_are_those_of_the_recording():
    rows = {row["name"]: row for row in csv.DictReader(RECORD.open())}
    for stage in stages():
        row = rows[f"bf16_{stage.version.name}"]
        counted = [stage.version.time * 1e6, stage.version.flops, stage.version.bytes]
        assert counted == pytest.approx([float(row["time_us"]), float(row["flops"]), float(row["bytes"])], rel=1e-9)
        # both gaps together: the algorithm at its roof against what was reached, where the compute roof applies
        if stage.side == "compute":
            assert stage.vertical == pytest.approx(stage.roofs.peaks[0] * stage.version.time / stage.version.flops)
        assert stage.horizontal == pytest.approx(stage.version.bytes / (3 * 2 * 8192**2), rel=1e-6)


def test_the_softmax_slice_is_overhead_bound():
    shown = regime("softmax rows=128 cols=128 dtype=fp16", "h100-sxm", "memory")
    assert (shown["bound"], shown["right"]) == ("overhead", False)
    assert shown["gap_us"] == pytest.approx(shown["time_us"] - shown["floor_us"])


def test_energy_of_textbooks_and_links_of_an_a100():
    assert extended.energy("h200-sxm", 66.667, True)["work_per_joule"] == pytest.approx(0.5 / 0.3e-12, rel=1e-4)
    shown = extended.communication(A100, 32768, 8, "nvlink")
    assert shown["intensity"] == pytest.approx(3 * 32768 / (7 * 2))
    assert shown["ridge"] == pytest.approx(1040)
    assert shown["limit"] == 1 + int(3 * 32768 / (1040 * 2))


@pytest.mark.parametrize(("share", "right"), [(0.71, True), (1.29, True), (0.69, False), (1.31, False)])
def test_estimates_count_within_thirty_percent(share, right):
    for number in (0, 1):
        exact = drill._drawn(3, number)[2][0]
        assert drill.check(3, number, str(exact * share))["right"] is right


def test_cards_come_again_with_their_seed_and_hide_their_answer():
    assert [drill.card(5, number) for number in range(9)] == [drill.card(5, number) for number in range(9)]
    assert drill.card(5, 0) != drill.card(6, 0) or drill.card(5, 1) != drill.card(6, 1)
    assert set(drill.card(5, 0)) == {"kind", "question", "unit", "choices"}
    assert {drill._drawn(seed, 2)[2][0] for seed in range(40)} >= {"memory", "compute", "overhead"}


@pytest.mark.parametrize("text", ["abc", "", "1/0", "nan", "inf", "-3", "1/2/3"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(InputError, match="number"):
        drill.estimate(text)


def test_fractions_are_numbers():
    assert [drill.estimate(text) for text in ("1/4", "0,5", " 153 ")] == [0.25, 0.5, 153]
