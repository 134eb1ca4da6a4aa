"""How many experts of a mixture get tokens: balanced, uniform and given; bytes, floor and time follow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.machines.load import load
from ridgeline.prediction.answer import answer
from ridgeline.programs import ops
from ridgeline.programs.ops import find
from strategies import law

LAYER = {"hidden": 2048, "inter": 768}


def experts_read(**values: float) -> float:
    work = ops.moe(**LAYER, **values)
    return float(work.moves["main", "weights", "read"]) / (3 * 2048 * 768 * 2)


def test_256_experts_of_which_32_tokens_choose_8_each() -> None:
    """256 (1 - (31/32)^32) = 163.3; balanced routing spreads the 256 choices over all experts."""
    sizes = {"tokens": 32, "experts": 256, "topk": 8}
    assert experts_read(**sizes) == 256
    assert experts_read(**sizes, routing="uniform") == pytest.approx(256 * (1 - (31 / 32) ** 32))
    assert round(experts_read(**sizes, routing="uniform")) == 163
    assert experts_read(**sizes, active=40) == 40
    (note,) = ops.moe(**LAYER, **sizes).notes
    routing, fused = note.split("; ")
    assert routing == "balanced routing reads 256 experts, uniform routing reads 163 on average: routing=uniform"
    assert fused.startswith("`fused` moves the floor, not the time")


@pytest.mark.parametrize(("tokens", "experts", "topk"), [(1, 8, 2), (5, 8, 2), (32, 256, 8), (100, 64, 6)])
def test_uniform_routing_against_simulated_routers(tokens: int, experts: int, topk: int) -> None:
    """Every token draws topk distinct experts at random; the mean over 4000 batches is within five standard errors."""
    generator = np.random.default_rng(14)
    batches = 4000
    scores = generator.random((batches, tokens, experts), dtype=np.float32)
    chosen = np.argpartition(scores, topk - 1, axis=-1)[..., :topk].reshape(batches, -1)
    hit = np.zeros((batches, experts), dtype=bool)
    np.put_along_axis(hit, chosen, True, axis=1)
    distinct = hit.sum(axis=1)
    error = distinct.std() / batches**0.5
    uniform = experts_read(tokens=tokens, experts=experts, topk=topk, routing="uniform")
    assert abs(distinct.mean() - uniform) <= 5 * error + 1e-6


@given(tokens=st.integers(1, 4096), experts=st.integers(1, 512), share=st.floats(0, 1))
@law(60)
def test_uniform_routing_hits_no_more_than_balanced_and_at_least_one_token_full(
    tokens: int, experts: int, share: float
) -> None:
    topk = max(1, int(share * experts))
    sizes = {"tokens": tokens, "experts": experts, "topk": topk}
    uniform, balanced = experts_read(**sizes, routing="uniform"), experts_read(**sizes)
    assert topk * (1 - 1e-9) <= uniform <= balanced * (1 + 1e-9)
    assert uniform <= experts_read(**{**sizes, "tokens": tokens + 1}, routing="uniform") * (1 + 1e-9)
    works = [ops.moe(**LAYER, **sizes, routing=routing) for routing in ("uniform", "balanced")]
    floors = [rl.predict(work, "h200-sxm").floor for work in works]
    assert floors[0] <= floors[1] * (1 + 1e-9)
    assert works[0].footprint == works[1].footprint  # all experts are resident


def test_time_follows_the_experts_that_are_read() -> None:
    """At 32 tokens the weights are nearly all that moves: 163 of 256 experts take about 0.64 of the time."""
    sizes = {"tokens": 32, "experts": 256, "topk": 8}
    uniform, balanced = (
        rl.predict(ops.moe(**LAYER, **sizes, routing=name), "h200-sxm") for name in ("uniform", "balanced")
    )
    assert uniform.floor / balanced.floor == pytest.approx(163.3 / 256, rel=0.01)
    assert 0.6 < uniform.time / balanced.time < 0.9


@pytest.mark.parametrize("active", [1, 65, 1000])
def test_impossible_loads(active: int) -> None:
    with pytest.raises(InputError, match="active experts must lie between topk and the smaller of"):
        ops.moe(tokens=32, experts=64, topk=2, active=active, **LAYER)


@pytest.mark.parametrize("active", [3, 40, 64])
def test_a_given_load_is_answered_though_fewer_tokens_could_not_reach_it(active: int) -> None:
    """The command looked for the number of tokens that is compute-bound, tried one token, and refused the load it was given."""
    values = {"tokens": 32, "experts": 64, "topk": 2, "active": active, **LAYER}
    made = answer(find("moe"), values, load("h100-sxm"))
    assert made.turning is None
    assert float(made.prediction.time) > 0
