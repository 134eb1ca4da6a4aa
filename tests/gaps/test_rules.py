"""The table of rules and moves: complete, consistent, and the short answers drawn from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_samples import gap_of, profiled

from ridgeline.core.errors import InputError
from ridgeline.gaps.gains import GAINS
from ridgeline.gaps.rules import Condition, Rule, catalog, causes, decode, flow, moves, recommend, rules
from ridgeline.gaps.signs import signs
from ridgeline.profilers.ncu.metrics import METRICS, STALLS
from ridgeline.programs import ops


def test_the_table_is_whole() -> None:
    known = {metric.name for metric in METRICS if metric.kind == "counter"}
    every = {**dict.fromkeys(known, 1.0), "stall.wait": 2.0, "l2_to_sm": 1e6}
    flops = {"tensor.bf16": 2 * 512.0**3}
    item = profiled(1e-3, flops=2 * 512.0**3, moved=1e6, bytes={"l1": 1e7, "l2": 1e6}, counters=every)
    item = replace(item, flops={**item.flops, **flops})
    own = set(signs(gap_of(ops.gemm(512, 512, 512, dtype="fp32"), item)))
    names = [rule.name for rule in rules()]
    assert len(set(names)) == len(names)
    words = {"stall": set(STALLS), "matrix": {"yes", "no"}, "engine": {"tensor", "vector"}}
    for rule in rules():
        assert rule.move in catalog(), rule.name
        assert rule.gain in GAINS, rule.name
        assert set(rule.unless) <= set(names), rule.name
        for condition in rule.applies + rule.sign:
            open_ = {
                "together",
                "sent",
                "waiting",
                "cores_used",
                "scalar_share",
                "sockets",
                "write_allocate",
                "fp64_share",
            }
            assert condition.figure in known | own | open_, f"{rule.name} asks for {condition.figure}"
            if condition.figure in words and isinstance(condition.value, tuple):
                assert set(condition.value) <= words[condition.figure], rule.name
    assert {rule.gain for rule in rules()} == set(GAINS)
    used = {rule.move for rule in rules()} | {move.key for move in (*decode(), *flow()["memory"], *flow()["compute"])}
    levels = {move.key for side in (0.1, 0.6, 0.9) for at in (2.0, 500.0) for move in recommend(side * min(312e12, at * 2e12), at, 312e12, 2e12).moves}  # fmt: skip
    offered = {move.key for bound in ("memory", "compute", "overhead", "balanced") for move in moves(bound)}
    assert set(catalog()) <= used | levels | offered


def test_cause_lists_and_the_flow() -> None:
    assert [len(causes(group)) for group in ("memory gap", "compute gap", "extra bytes")] == [5, 4, 5]
    assert [len(flow()[side]) for side in ("memory", "compute")] == [6, 6]
    assert len(decode()) == 5
    kinds = {move.kind for move in catalog().values()}
    assert kinds == {"bandwidth use", "fusion", "tiling", "quantization", "compute", "parallelism"}
    with pytest.raises(InputError, match="unknown kind of gap"):
        causes("no gap")
    with pytest.raises(InputError, match="unknown bound"):
        moves("weather")


def test_directions_follow_from_what_changes() -> None:
    table = catalog()
    right = {"tile": "both", "fuse": "right", "multicast": "right", "larger-tiles": "both", "quantize": "right"}
    up = {"pipeline": "up", "swizzle": "up", "independent": "up", "occupancy": "up", "engine": "up", "coalesce": "both"}
    assert {key: table[key].direction for key in right | up} == right | up
    assert "fewer warps" in table["occupancy"].changes  # both ways


@pytest.mark.parametrize(
    ("rate", "intensity", "side", "name", "efficiency"),
    [
        (150e9, 2.0, "memory", "low efficiency", 0.037),
        (2500e9, 2.0, "memory", "moderate efficiency", 0.61),
        (3700e9, 2.0, "memory", "high efficiency", 0.91),
        (100e12, 500.0, "compute", "low efficiency", 0.32),
        (280e12, 500.0, "compute", "high efficiency", 0.90),
    ],
)
def test_the_recommender(rate: float, intensity: float, side: str, name: str, efficiency: float) -> None:
    """An A100 in fp16: 312 Tflop/s, 2039 GB/s."""
    advice = recommend(rate, intensity, 312e12, 2039e9)
    assert (advice.side, advice.name) == (side, name)
    assert advice.efficiency == pytest.approx(efficiency, abs=0.005)
    assert len(advice.moves) == 3
    assert len(advice.causes) == ({"memory": 5, "compute": 4}[side] if advice.efficiency < 0.8 else 0)


def test_a_rule_is_shown_possible_or_ruled_out_by_its_conditions() -> None:
    rule = Rule("x", "g", "cause", "fuse", "reach", (Condition.parse("share < 0.8"),), (Condition.parse("stall = wait | barrier"),))  # fmt: skip
    assert rule.status({"share": 0.5, "stall": "barrier"}) == "shown"
    assert rule.status({"share": 0.5}) == "possible"
    assert rule.status({"share": 0.5, "stall": "gmma"}) == ""
    assert rule.status({"share": 0.9}) == ""
    assert replace(rule, only_shown=True).status({"share": 0.5}) == ""
    assert replace(rule, possible=True).status({"share": 0.5, "stall": "wait"}) == "possible"
    assert replace(rule, sign=()).status({"share": 0.5}) == "possible"
    assert replace(rule, sign=(), shown="the time").status({"share": 0.5}) == "shown"


GPU_WORDS = ("tensor core", "coalesce", "warp", "CUDA", "SM", "thread block", "occupancy", "shared memory", "multicast")


@pytest.mark.parametrize("bound", ["memory", "compute", "overhead", "balanced"])
def test_cpus_are_offered_no_gpu_moves(bound: str) -> None:
    for move in moves(bound, "cpu"):
        assert not any(word in move.name for word in GPU_WORDS), move.name
    assert {"vectorize", "threads"} <= {move.key for side in ("memory", "compute") for move in moves(side, "cpu")}
    assert not {"vectorize", "threads"} & {move.key for move in moves(bound)}


def test_a_rule_asks_for_the_device_of_its_move() -> None:
    for rule in rules():
        device = catalog()[rule.move].device
        asked = {str(value) for item in rule.applies if item.figure == "device" and isinstance(item.value, tuple) for value in item.value}  # fmt: skip
        assert not device or asked == {device}, rule.name


def test_causes_have_a_name_before_their_explanation() -> None:
    for rule in rules():
        name, colon, explanation = rule.cause.partition(": ")
        assert colon, rule.name
        assert explanation, rule.name
        assert len(name) <= 36, rule.name


def test_rules_that_give_way_to_each_other_do_not_vanish_together() -> None:
    """`unless` has no cycle: of rules that hold at once, at least one stays."""
    unless = {rule.name: set(rule.unless) for rule in rules()}
    left = dict(unless)
    while left:
        free = [name for name, others in left.items() if not others & set(left)]
        assert free, f"these give way to each other: {sorted(left)}"
        left = {name: others for name, others in left.items() if name not in free}
