"""Kernel families: laws that hold for any sizes, any hardware and any coefficients, and times worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ridgeline.core.families import FORMULAS, SHARED, VARIANTS, Family, Hardware, Key, formula, keys, nearby
from ridgeline.core.families.family import blend
from ridgeline.core.families.row_kernels import BY_OP
from ridgeline.core.families.weight_tiles import TILED_UNPACKING
from strategies import law

EVERY = {**FORMULAS, "weight_tiles": TILED_UNPACKING}
NAMES = tuple(sorted(EVERY))
NEAR = 1e-9
CHOICES = {"smallest": (32.0, 64.0, 128.0)}


# -- any case of any family ------------------------------------------------------------------------------------------


def near(value: Any, wanted: Any) -> bool:
    return bool(np.allclose(value, wanted, rtol=NEAR, atol=0))


def some(low: float, high: float) -> st.SearchStrategy[float]:
    """Whole numbers, as likely small as large."""
    return st.floats(np.log(low), np.log(high)).map(lambda power: float(np.clip(np.round(np.exp(power)), low, high)))


def wide(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda power: float(np.clip(np.exp(power), low, high)))


WIDTHS = st.sampled_from((1.0, 2.0, 4.0, 8.0))
SIZES: dict[str, dict[str, st.SearchStrategy[float]]] = {
    "gemm": {
        **{"b": some(1, 512), "m": some(1, 65536), "n": some(1, 65536), "k": some(1, 65536)},
        **{"a": WIDTHS, "w": WIDTHS, "c": WIDTHS},
    },
    "weight_only": {
        **{"m": some(1, 65536), "n": some(1, 65536), "k": some(1, 65536)},
        **{"a": WIDTHS, "w": st.sampled_from((0.5, 1.0)), "c": WIDTHS},
    },
    "stream": {
        **{"read": some(1, 2**34), "written": some(1, 2**34), "flops": some(1, 2**34), "special": some(1, 2**30)},
        **{"elements": some(1, 2**30), "launches": st.sampled_from((1.0, 2.0, 3.0))},
    },
    "transpose": {"rows": some(1, 2**17), "cols": some(1, 2**17), "x": WIDTHS},
    "rows": {
        **{"rows": some(1, 2**20), "cols": some(1, 2**18), "x": WIDTHS, "y": WIDTHS},
        **{"per_row": st.sampled_from((0.0, 1.0)), "fresh": st.sampled_from((0.1, 1.0)), "pixels": some(1, 2**16)},
    },
    "scan": {"rows": some(1, 2**20), "cols": some(1, 2**18), "x": WIDTHS},
    "attention": {
        **{"batch": some(1, 256), "heads": some(1, 128), "shared": some(1, 16), "q": some(2, 65536), "d": some(16, 512)},
        **{"more": some(1, 4096), "causal": st.sampled_from((0.0, 1.0)), "x": WIDTHS, "stored": WIDTHS},
    },
    "decode": {
        **{"batch": some(1, 1024), "heads": some(1, 128), "shared": some(1, 16), "kv": some(1, 2**20), "d": some(16, 512)},
        **{"x": WIDTHS, "stored": WIDTHS},
    },
    "conv": {
        **{"images": some(1, 512), "c_in": some(1, 4096), "c_out": some(1, 4096), "h": some(1, 512), "w": some(1, 512)},
        **{"kernel": st.sampled_from((1.0, 3.0, 5.0, 7.0)), "stride": st.sampled_from((1.0, 2.0)), "x": WIDTHS},
        **{"dilation": st.sampled_from((1.0, 2.0)), "groups": st.sampled_from((1.0, 4.0)), "y": WIDTHS},
        **{"summed": st.sampled_from((0.0, 1.0)), "spread": st.sampled_from((1.0, 2.0))},
    },
    "moe": {
        **{"tokens": some(1, 65536), "experts": some(1, 512), "topk": some(1, 16), "hidden": some(16, 16384)},
        **{"inter": some(16, 16384), "stored": WIDTHS},
    },
}  # fmt: skip
SIZES["attention_backward"] = SIZES["attention"]
SIZES["weight_tiles"] = SIZES["weight_only"] | {
    "w": st.sampled_from((0.5, 0.515625, 1.0, 1.015625))
}  # scales of 128 weights


def whole(name: str, drawn: dict[str, float]) -> dict[str, float]:
    """Sizes that fit each other: queries never see past the keys, channels divide into groups."""
    if name in ("attention", "attention_backward"):
        return {**drawn, "kv": drawn["q"] + drawn["more"] - 1, "heads": drawn["heads"] * drawn["shared"]}
    if name == "decode":
        return {**drawn, "q": 1.0, "causal": 0.0, "heads": drawn["heads"] * drawn["shared"]}
    if name == "conv":
        grouped = {key: drawn[key] * drawn["groups"] for key in ("c_in", "c_out")}
        out = {f"{side}o": np.ceil(drawn[side] / drawn["stride"]) for side in "hw"}
        return {**drawn, **grouped, **out}
    return drawn


def sizes(name: str) -> st.SearchStrategy[dict[str, float]]:
    return st.fixed_dictionaries(SIZES[name]).map(lambda drawn: whole(name, drawn))


hardware = st.builds(
    Hardware,
    cores=some(8, 304),
    peak=wide(1e11, 1e16),
    bandwidth=wide(1e11, 1e13),
    cache=wide(1e6, 2e8),
    special=wide(1e10, 1e14),
    vector=wide(1e11, 1e15),
)


def coefficients(family: Family) -> st.SearchStrategy[dict[str, float]]:
    """Any coefficients within their bounds; optional ones may be absent."""
    every = {
        name: st.sampled_from(CHOICES[name]) if name in CHOICES else wide(row.low, row.high)
        for name, row in family.coefficients.items()
    }
    needed = {name: row for name, row in every.items() if not family.coefficients[name].optional}
    return st.fixed_dictionaries(
        needed, optional={name: row for name, row in every.items() if family.coefficients[name].optional}
    )


families = st.sampled_from(NAMES).flatmap(
    lambda name: st.tuples(st.just(EVERY[name]), sizes(name), hardware, coefficients(EVERY[name]))
)


HAND = Hardware(cores=100, peak=1e14, bandwidth=1e12, cache=1e7, special=1e12, vector=1e13)


# -- laws ------------------------------------------------------------------------------------------------------------


@law(200)
@given(families)
def test_a_time_is_positive_finite_and_the_sum_of_its_items(drawn: Any) -> None:
    family, case, machine, numbers = drawn
    time = family.time(case, machine, numbers)
    items = family.items(case, machine, numbers)
    assert 0 < time < np.inf
    assert [item.effect for item in items] == [family.main, *(effect.label for effect in family.effects)]
    assert np.isclose(sum(item.seconds for item in items), time, rtol=NEAR)
    assert items[0].kind == "main"
    assert items[0].seconds > 0


@law(100)
@given(st.data())
def test_many_cases_at_once_are_the_cases_one_by_one(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    family, machine = EVERY[name], data.draw(hardware)
    numbers = data.draw(coefficients(family))
    cases = data.draw(st.lists(sizes(name), min_size=2, max_size=5))
    together = {key: np.array([case[key] for case in cases]) for key in cases[0]}
    times = family.time(together, machine, numbers)
    items = family.items(together, machine, numbers)
    for place, case in enumerate(cases):
        assert near(times[place], family.time(case, machine, numbers))
        for item, alone in zip(items, family.items(case, machine, numbers), strict=True):
            among = np.broadcast_to(item.seconds, times.shape)[place]
            assert np.isclose(among, alone.seconds, rtol=NEAR, atol=NEAR * times[place])


@law(300)
@given(families, st.sampled_from(("peak", "bandwidth", "special", "vector", "cache")), st.floats(1.0, 100.0))
def test_faster_hardware_is_never_slower(drawn: Any, which: str, factor: float) -> None:
    family, case, machine, numbers = drawn
    faster = Hardware(**{**vars(machine), which: getattr(machine, which) * factor})
    assert family.time(case, faster, numbers) <= family.time(case, machine, numbers) * (1 + NEAR)


# Sizes of which more is more work, whatever the tiles; those in one tuple belong together.
GROWING = {
    "gemm": (("b",), ("m",), ("n",), ("k",)),
    "weight_only": (("m",), ("n",), ("k",)),
    "weight_tiles": (("m",), ("n",), ("k",)),
    "stream": (("read",), ("written",), ("flops",), ("special",), ("elements",), ("launches",)),
    "transpose": (("rows",), ("cols",)),
    "rows": (("rows",), ("cols",)),
    "scan": (("rows",), ("cols",)),
    "attention": (("batch",), ("heads",), ("shared",), ("q",), ("kv",), ("q", "kv"), ("d",)),
    "attention_backward": (("batch",), ("heads",), ("shared",), ("q",), ("kv",), ("q", "kv"), ("d",)),
    "decode": (("batch",), ("heads",), ("shared",), ("kv",), ("d",)),
    "conv": (("images",), ("c_in",), ("c_out",), ("h", "ho"), ("w", "wo"), ("h", "w", "ho", "wo")),
    "moe": (("tokens",), ("experts",), ("topk",), ("hidden",), ("inter",)),
}


def variant(name: str, case: dict[str, float]) -> list[Key]:
    return [key for key, _ in keys("attention" if name == "decode" else name, case, "bf16")]


def channels_alone(case: dict[str, float]) -> bool:
    """Whether each channel of a convolution is a group."""
    return 1 < case.get("groups", 1.0) == case.get("c_in", 0.0)


@law(1000)
@given(st.data())
def test_more_of_a_size_never_takes_less_time_within_a_variant(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    grown = data.draw(st.sampled_from(GROWING[name]))
    family, machine, case = EVERY[name], data.draw(hardware), data.draw(sizes(name))
    numbers = data.draw(coefficients(family))
    if grown == ("q", "kv"):
        case = {**case, "kv": case["q"]}
    extra = float(data.draw(st.one_of(st.integers(1, 300), some(1, 2**20))))
    if family is TILED_UNPACKING and grown == ("k",):
        extra *= 1024  # which leaves what k can be cut into as it is
    more = {**case, **{key: case[key] + extra for key in grown}}
    if "q" in more:
        more["q"] = min(more["q"], more["kv"])  # queries never see past the keys
    assume(variant(name, case) == variant(name, more) or name != "scan")
    assume(channels_alone(case) == channels_alone(more))  # which other kernels compute, by another formula
    assert family.time(more, machine, numbers) >= family.time(case, machine, numbers) * (1 - NEAR)


@law(300)
@given(families, st.sampled_from(("a", "w", "c", "x", "y", "stored")))
def test_fewer_bytes_of_an_element_are_never_slower(drawn: Any, width: str) -> None:
    family, case, machine, numbers = drawn
    assume(width in case)
    less = {**case, width: case[width] / 2}
    assert family.time(less, machine, numbers) <= family.time(case, machine, numbers) * (1 + NEAR)


def pairs(case: dict[str, float]) -> float:
    return case["batch"] * case["heads"] * case["q"] * (case["kv"] - case["causal"] * (case["q"] - 1) / 2)


def attention_bytes(case: dict[str, float]) -> float:
    queries, shared = case["heads"] * case["q"] * case["x"], case["shared"] * case["kv"] * case["stored"]
    return 2 * case["batch"] * case["d"] * (queries + shared)


def row_bytes(case: dict[str, float]) -> float:
    written = case["per_row"] or case["cols"]
    return case["rows"] * (case["cols"] * case["x"] * case["fresh"] + written * case["y"])


def conv_bytes(case: dict[str, float]) -> float:
    images = case["c_in"] * case["h"] * case["w"] * case["x"] + case["c_out"] * case["ho"] * case["wo"] * case["y"]
    return case["images"] * images + case["c_out"] * case["c_in"] / case["groups"] * case["kernel"] ** 2 * case["x"]


# Flops and bytes of the definition, counted apart from the formulas.
ALGORITHM: dict[str, tuple[Callable[[dict[str, float]], float], Callable[[dict[str, float]], float]]] = {
    "gemm": (
        lambda g: 2 * g["b"] * g["m"] * g["n"] * g["k"],
        lambda g: g["b"] * (g["m"] * g["k"] * g["a"] + g["k"] * g["n"] * g["w"] + g["m"] * g["n"] * g["c"]),
    ),
    "weight_only": (
        lambda g: 2 * g["m"] * g["n"] * g["k"],
        lambda g: g["m"] * g["k"] * g["a"] + g["k"] * g["n"] * g["w"] + g["m"] * g["n"] * g["c"],
    ),
    "stream": (lambda g: 0.0, lambda g: g["read"] + g["written"]),
    "transpose": (lambda g: 0.0, lambda g: 2 * g["rows"] * g["cols"] * g["x"]),
    "rows": (lambda g: 0.0, row_bytes),
    "scan": (lambda g: 0.0, lambda g: 2 * g["rows"] * g["cols"] * g["x"]),
    "attention": (lambda g: 4 * pairs(g) * g["d"], attention_bytes),
    "attention_backward": (lambda g: 10 * pairs(g) * g["d"], lambda g: 2 * attention_bytes(g)),
    "decode": (lambda g: 4 * pairs(g) * g["d"], attention_bytes),
    "conv": (
        lambda g: 2 * g["images"] * g["c_out"] * g["ho"] * g["wo"] * g["c_in"] / g["groups"] * g["kernel"] ** 2,
        conv_bytes,
    ),
    "moe": (
        lambda g: 6 * g["tokens"] * g["topk"] * g["hidden"] * g["inter"],
        lambda g: 3 * min(g["experts"], g["tokens"] * g["topk"]) * g["hidden"] * g["inter"] * g["stored"],
    ),
}


@law(300)
@given(families)
def test_without_effects_no_time_beats_the_peak_or_the_bandwidth(drawn: Any) -> None:
    family, case, machine, numbers = drawn
    flops, moved = ALGORITHM[family.name]
    main = family.items(case, machine, numbers)[0]
    assert main.kind == "main"
    assert main.seconds >= flops(case) / machine.peak * (1 - NEAR)
    assert main.seconds >= moved(case) / machine.bandwidth * (1 - NEAR)


@pytest.mark.parametrize("name", NAMES)
def test_no_share_of_a_ceiling_is_above_one(name: str) -> None:
    shares = {"compute", "memory", "sustained", "winograd"} & set(EVERY[name].coefficients)
    assert shares
    assert all(EVERY[name].coefficients[share].high <= 1.0 for share in shares)


@law(100)
@given(families, st.floats(1e-9, 1e-3))
def test_the_launch_is_added_once_per_launch(drawn: Any, more: float) -> None:
    family, case, machine, numbers = drawn
    longer = {**numbers, "launch": numbers["launch"] + more}
    added = family.time(case, machine, longer) - family.time(case, machine, numbers)
    launches = case.get("launches", 1.0)
    assert added == pytest.approx(more * launches, abs=1e-9 * family.time(case, machine, longer))
    (launch,) = [item for item in family.items(case, machine, longer) if item.kind == "launch"]
    assert launch.seconds == pytest.approx(longer["launch"] * launches, abs=1e-9 * family.time(case, machine, longer))


@law(100)
@given(families)
def test_a_coefficient_that_is_not_given_is_its_default_or_absent(drawn: Any) -> None:
    family, case, machine, _ = drawn
    full = {name: 0.0 if row.optional else row.default for name, row in family.coefficients.items()}
    assert family.time(case, machine, {}) == family.time(case, machine, full)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_lie_within_their_bounds_and_every_coefficient_says_what_it_means(name: str) -> None:
    for row in EVERY[name].coefficients.values():
        assert 0 < row.low <= row.default <= row.high
        assert row.meaning
    assert EVERY[name].name == {"weight_tiles": "weight_only"}.get(name, name)
    assert EVERY[name].effects[-1].kind == "launch"
    assert {effect.kind for effect in EVERY[name].effects} <= {"launch", "shape", "other"}


ANYWHERE = {  # sizes of every regime, drawn evenly on the logarithm
    "gemm": {"b": 64, "m": 16384, "n": 16384, "k": 16384},
    "stream": {"read": 1e9, "written": 1e9, "flops": 1e10, "special": 1e9, "elements": 1e9},
    "transpose": {"rows": 16384, "cols": 16384},
    "rows": {"rows": 1e6, "cols": 1e5},
    "scan": {"rows": 1e6, "cols": 1e5},
    "weight_only": {"m": 512, "n": 16384, "k": 16384},
    "weight_tiles": {"m": 512, "n": 16384, "k": 16384},
    "attention_backward": {"batch": 64, "heads": 64, "shared": 8, "q": 8192, "kv": 8192, "d": 512},
    "attention": {"batch": 64, "heads": 64, "shared": 8, "q": 8192, "kv": 8192, "d": 512},
    "decode": {"batch": 256, "heads": 64, "shared": 8, "kv": 65536, "d": 256},
    "conv": {"images": 256, "c_in": 1024, "c_out": 1024, "h": 128, "w": 128},
    "moe": {"tokens": 8192, "experts": 128, "topk": 8, "hidden": 8192, "inter": 8192},
}
FIXED = {"x": 2.0, "y": 2.0, "a": 2.0, "w": 2.0, "c": 2.0, "stored": 2.0, "launches": 1.0, "per_row": 0.0, "fresh": 1.0}


@pytest.mark.parametrize("name", NAMES)
def test_every_coefficient_and_every_effect_matters_to_some_case(name: str) -> None:
    family, random = EVERY[name], np.random.default_rng(0)
    drawn = {key: np.floor(np.exp(random.uniform(0, np.log(most), 2000))) for key, most in ANYWHERE[name].items()}
    case: dict[str, Any] = {
        **FIXED,
        "q": 1.0,
        "causal": 0.0,
        "kernel": 3.0,
        "stride": 1.0,
        "dilation": 1.0,
        "groups": 1.0,
    }
    case |= drawn
    if name == "conv":
        groups = np.where(case["c_in"] % 3 == 0, case["c_in"], np.where(case["c_in"] % 3 == 1, 1.0, 2.0))
        case |= {"ho": case["h"], "wo": case["w"], "groups": groups}
    if name in ("weight_only", "weight_tiles"):
        case |= {"w": 4.125 / 8}  # four bits and a scale of sixteen for 128 of them
    if name == "stream":
        case |= {"steps": np.minimum(case["elements"], 200.0), "fetched": 40.0, "blocks": case["elements"] / 4096}
    cases = [case, {**case, "apart": 1.0}] if name == "rows" else [case]  # rows, and sums of what lies a row apart

    def times(numbers: dict[str, float]) -> list[Any]:
        return [family.time(each, HAND, numbers) for each in cases]

    # defaults may be neutral, the middle of the bounds is not
    numbers = {key: float(np.sqrt(row.low * row.high)) for key, row in family.coefficients.items()}
    for key, row in family.coefficients.items():
        # several tiles on a core at once are a list of their own
        others = {name: number for name, number in numbers.items() if name != "several" or key == "several"}
        plain = times(others)
        ends = [times({**others, key: end}) for end in (row.low, row.high)]
        assert not all(np.array_equal(time, plain) for time in ends), key
    for item in family.items(case, HAND, numbers):
        assert np.any(np.asarray(item.seconds) != 0), item.effect


@law(100)
@given(wide(1e-9, 1.0), wide(1e-9, 1.0), st.floats(1.0, 8.0))
def test_what_overlaps_takes_between_the_longer_and_the_sum(first: float, second: float, power: float) -> None:
    time = blend(first, second, power)
    assert max(first, second) * (1 - NEAR) <= time <= (first + second) * (1 + NEAR)
    assert near(time, blend(second, first, power))
    assert near(blend(first, second, 1.0), first + second)
    assert blend(0.0, 0.0, power) == 0.0


# -- which variant -----------------------------------------------------------------------------------------------------


@law(300)
@given(st.data())
def test_every_case_belongs_to_one_variant(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(sorted(VARIANTS)))
    drawn = [family, "decode"] if family == "attention" else [family]
    cases = data.draw(st.lists(st.sampled_from(drawn).flatmap(sizes), min_size=1, max_size=6))
    together = {key: np.array([case.get(key, 1.0) for case in cases]) for key in cases[0]}
    total = np.zeros(len(cases))
    op = data.draw(st.sampled_from(("", "own", *BY_OP, "copy", "dropout")))
    decided = family.startswith("attention") and not op  # by the sizes, where a kernel does not name its op
    for key, applies in keys(family, together, "bf16", op):
        total = total + applies
        assert formula(key).name == ("decode" if key.family == "decode" else family)
        assert key.op in ("causal", "full") if decided else key.op == op
        for place in np.flatnonzero(np.broadcast_to(applies, total.shape)):
            case = {name: value[place] for name, value in together.items()}
            assert list(keys(family, case, "bf16", op)) == [(key, 1.0)]
    assert total.tolist() == [1.0] * len(cases)


GEMMS = {  # bf16: rows of k elements are 2 k bytes
    (4096, 4096, 4096): "gemm",
    (4097, 4096, 4096): "gemm",  # the number of rows moves no row
    (4096, 4096, 4112): "gemm-ragged",  # 8224 bytes: 32 off 128
    (4096, 4096, 4104): "gemm-ragged-straddling",  # 8208 bytes: 16 off 32
    (4096, 4104, 4096): "gemm-ragged",
    (4096, 4096, 4100): "gemm-loose",  # 8200 bytes: 8 off 16
    (4096, 4098, 4096): "gemm-loose-lined",  # 8196 bytes: 4 off 16; rows of k on lines
    (4096, 4098, 4104): "gemm-loose",
    (4096, 50257, 768): "gemm-odd-lined",
    (8, 50257, 768): "gemm-few-odd-lined",
    (8, 50258, 768): "gemm-few-odd-loose-lined",
    (4096, 4096, 4097): "gemm-odd",  # 8194 bytes: 2 off 4
    (8, 4096, 4096): "gemm-few",
    (4096, 8, 4096): "gemm-few",
    (9, 4096, 4096): "gemm",
    (2, 4096, 4097): "gemm-few-odd",
    (2, 4096, 4100): "gemm-few-odd-loose",
    (1, 4096, 4096): "gemm-few",
    (1, 4096, 4100): "gemm-few-odd-one",
    (1, 4096, 4097): "gemm-few-odd-one",
}


@pytest.mark.parametrize(("shape", "wanted"), GEMMS.items())
def test_variants_of_products(shape: tuple[int, int, int], wanted: str) -> None:
    case = dict(zip("mnk", map(float, shape), strict=True)) | {"b": 1.0, "a": 2.0, "w": 2.0, "c": 2.0}
    assert [key.kernels for key, _ in keys("gemm", case, "bf16")] == [wanted]


@pytest.mark.parametrize(
    ("width", "shape", "wanted"),
    [
        (8.0, (64, 64, 64), "gemm"),
        (8.0, (64, 64, 66), "gemm-ragged"),  # 528 bytes: on 16, off four elements
        (8.0, (64, 64, 65), "gemm-loose"),
        (4.0, (64, 64, 68), "gemm"),
        (4.0, (1, 64, 68), "gemm-few-one"),
        (1.0, (64, 64, 64), "gemm-ragged"),  # half a cache line
    ],
)
def test_variants_of_products_by_width(width: float, shape: tuple[int, int, int], wanted: str) -> None:
    case = dict(zip("mnk", map(float, shape), strict=True)) | {"b": 1.0, "a": width, "w": width, "c": width}
    assert [key.kernels for key, _ in keys("gemm", case, "bf16")] == [wanted]


@pytest.mark.parametrize(
    ("cols", "wanted"),
    [(2048.0, "rows-short"), (2052.0, "rows"), (2047.0, "rows-short-odd"), (2049.0, "rows-odd"), (4.0, "rows-short")],
)
def test_variants_of_rows(cols: float, wanted: str) -> None:
    assert [key.kernels for key, _ in keys("rows", {"cols": cols}, "bf16")] == [wanted]


ROW_OPS = [  # rows, cols, op, kernels; bf16
    (64, 8191, "sum_rows", "rows-short"),
    (64, 8192, "sum_rows", "rows"),
    (4, 131072, "sum_rows", "rows-split"),
    (64, 128, "sort", "rows-block-warp"),
    (64, 4096, "sort", "rows-block"),
    (128, 4097, "sort", "rows"),
    (127, 4097, "sort", "rows-together"),
    (1, 4097, "sort", "rows-together-one"),
    (20, 19999, "topk", "rows"),
    (20, 20000, "topk", "rows-split"),
    (21, 10000, "topk", "rows-split"),
    (5000, 399, "topk", "rows"),
    (16, 4096, "embedding", "rows-few"),
    (17, 4096, "embedding", "rows"),
    (17, 4100, "embedding", "rows-odd"),  # 8200 bytes: 8 off 16
    (64, 2048, "softmax", "rows-short"),
    (64, 2048, "softmax_backward", "rows"),
    (64, 2049, "softmax", "rows-kept"),
    (64, 9216, "softmax", "rows-kept"),
    (64, 9217, "softmax", "rows-odd"),
    (64, 9224, "cross_entropy", "rows"),
    (65537, 2052, "layernorm_backward", "rows-tall"),
    (65536, 2052, "layernorm_backward", "rows"),
]


@pytest.mark.parametrize(("rows", "cols", "op", "wanted"), ROW_OPS)
def test_variants_of_ops_over_rows(rows: float, cols: float, op: str, wanted: str) -> None:
    case = {"rows": rows, "cols": cols, "x": 2.0, "per_row": 4.0}
    assert [key.kernels for key, _ in keys("rows", case, "bf16", op)] == [wanted]


@pytest.mark.parametrize(
    ("rows", "cols", "wanted"),
    # 2^((9 + log2 cols - log2 rows) / 2), between 16 and 512
    [
        (1, 4096, "single"),
        (2, 2**17, "by512"),
        (64, 4096, "by128"),
        (4096, 4096, "by16"),
        (2**14, 32, "by16"),
        (2**15, 32, "by512"),
    ],
)
def test_variants_of_prefix_sums(rows: float, cols: float, wanted: str) -> None:
    assert [key.variant for key, _ in keys("scan", {"rows": rows, "cols": cols}, "bf16")] == [wanted]


@pytest.mark.parametrize(
    ("op", "n", "wanted"),
    [
        *(("copy", 1 << 19, "short"), ("copy", 1 << 20, ""), ("copy", (1 << 20) + 1, "ragged"), ("add", 7, "")),
        *(("dropout", 8, ""), ("dropout", 6, "pair"), ("dropout", 7, "single")),
    ],
)
def test_variants_of_streams(op: str, n: float, wanted: str) -> None:
    assert [key.variant for key, _ in keys("stream", {"written": 2.0 * n, "elements": n}, "bf16", op)] == [wanted]


@pytest.mark.parametrize(
    ("q", "causal", "wanted"),
    [(1.0, 0.0, ("decode", "full")), (1.0, 1.0, ("decode", "full")), (2.0, 1.0, ("attention", "causal"))],
)
def test_a_single_query_is_decoding_and_has_no_mask(q: float, causal: float, wanted: tuple[str, str]) -> None:
    assert [(key.kernels, key.op) for key, _ in keys("attention", {"q": q, "causal": causal, "d": 128.0}, "bf16")] == [
        wanted
    ]


@pytest.mark.parametrize(("d", "wanted"), [(64.0, "-narrow"), (80.0, ""), (128.0, ""), (136.0, "-wide")])
def test_head_sizes_have_kernels_of_their_own(d: float, wanted: str) -> None:
    for name, q in (("attention", 2.0), ("decode", 1.0)):
        case = {"q": q, "causal": 0.0, "d": d}
        assert [key.kernels for key, _ in keys("attention", case, "bf16")] == [name + wanted]
    assert [key.kernels for key, _ in keys("attention_backward", {**case, "q": 2.0}, "bf16")] == [
        "attention_backward" + wanted
    ]


CONV = {"kernel": 3.0, "stride": 1.0, "groups": 1.0, "x": 2.0, "ho": 56.0, "wo": 56.0, "c_in": 64.0, "c_out": 64.0}
CONVS = [
    ({}, "conv"),
    ({"c_in": 72.0}, "conv-loose-halved"),
    ({"c_in": 3.0, "kernel": 7.0}, "conv-few-odd-large"),
    ({"c_in": 68.0, "kernel": 7.0}, "conv-odd-large"),
    ({"c_out": 72.0}, "conv-loose"),  # 72 = 2 x 32 + 8
    ({"c_in": 68.0}, "conv-odd"),  # 68 = 8 x 8 + 4
    ({"c_in": 3.0}, "conv-few-odd"),
    ({"c_in": 16.0}, "conv-few"),
    ({"kernel": 7.0}, "conv-large"),
    ({"kernel": 7.0, "c_out": 96.0}, "conv-large-wide"),
    ({"kernel": 7.0, "c_out": 99.0}, "conv-odd-large-wide"),
    ({"groups": 16.0, "c_in": 128.0, "c_out": 128.0}, "conv-grouped"),  # 8 channels a group
    ({"groups": 8.0}, "conv-grouped-narrow"),  # 8, and 64 in all
    ({"groups": 2.0}, "conv-grouped-broad-block"),  # 32
    ({"groups": 2.0, "c_in": 96.0, "c_out": 96.0}, "conv-grouped-broad"),  # 48
    ({"groups": 32.0}, "conv-grouped-odd"),  # 2
    ({"groups": 16.0}, "conv-grouped-odd-quads"),  # 4
    ({"groups": 8.0, "c_in": 96.0, "c_out": 96.0}, "conv-grouped-odd-fours"),  # 12
    ({"groups": 15.0, "c_in": 60.0, "c_out": 60.0}, "conv-grouped-odd"),  # 4, but 60 = 7 x 8 + 4
    ({"groups": 64.0}, "conv-grouped-alone"),
    ({"groups": 64.0, "stride": 2.0}, "conv-grouped-alone-stepped"),
    ({"groups": 64.0, "kernel": 7.0}, "conv-grouped-alone-large"),
    ({"groups": 64.0, "kernel": 9.0}, "conv-grouped-alone-large"),  # stored channel by channel
    ({"kernel": 1.0}, "conv-point"),
    ({"kernel": 1.0, "ho": 7.0, "wo": 7.0}, "conv-point-odd-pixels"),  # 49 pixels of 2 bytes: 98 = 6 x 16 + 2
    ({"kernel": 1.0, "c_in": 60.0}, "conv-point-odd"),
    ({"kernel": 1.0, "c_out": 60.0}, "conv-point"),  # rows of weights and of pixels are on 16 bytes
    ({"kernel": 1.0, "ho": 1.0, "wo": 1.0}, "conv-point-one"),
    ({"kernel": 1.0, "ho": 1.0, "wo": 1.0, "c_out": 60.0}, "conv-point-one-odd"),  # rows of y are channels
    ({"kernel": 1.5, "spread": 2.0}, "conv-spread"),  # the gradient of images that a 3x3 kernel went over in steps of 2
    ({"kernel": 0.5, "spread": 2.0}, "conv-spread-point"),
    ({"kernel": 1.0, "spread": 2.0}, "conv-spread-patch"),  # 2x2 in steps of 2: every pixel has one tap
    ({"kernel": 3.5, "spread": 2.0, "c_out": 3.0}, "conv-spread-few"),  # the gradient of the images of a first layer
    ({"kernel": 1.0, "spread": 1.0}, "conv-point"),
    ({"kernel": 1.0, "stride": 2.0}, "conv-skip"),
    ({"kernel": 1.0, "stride": 2.0, "c_in": 63.0}, "conv-skip-odd"),
    ({"kernel": 1.0, "stride": 2.0, "c_in": 3.0}, "conv-skip-few"),  # not a plain product
]


@pytest.mark.parametrize(("change", "wanted"), CONVS)
def test_variants_of_convolutions(change: dict[str, float], wanted: str) -> None:
    assert [key.kernels for key, _ in keys("conv", CONV | change, "bf16", "nchw")] == [wanted]


@pytest.mark.parametrize("op", ["dgrad_nchw", "wgrad_nhwc"])
def test_gradients_have_kernels_by_taps_and_stride(op: str) -> None:
    def kernels(**change: float) -> list[str]:
        return [key.kernels for key, _ in keys("conv", CONV | change, "bf16", op)]

    assert kernels() == ["conv"]
    assert kernels(kernel=5.0) == ["conv-broad"]
    assert kernels(stride=2.0, c_in=80.0) == ["conv-loose-stepped"]  # 80 = 2 x 32 + 16
    assert kernels(kernel=5.0, stride=2.0, c_in=72.0) == ["conv-loose-halved-stepped"]


@pytest.mark.parametrize(("taps", "outputs"), [(3.0, 4.0), (5.0, 5.0)])
def test_a_gradient_of_weights_by_transform_multiplies_less(taps: float, outputs: float) -> None:
    """Large and even: the products of a tile are (t + r - 1)^2 instead of t^2 r^2, counted tap by tap."""
    tile = {
        (row + tap) for row in range(int(outputs)) for tap in range(int(taps))
    }  # rows of the image that a tile reads
    fewer = outputs**2 * taps**2 / len(tile) ** 2
    sizes = {
        "images": 200.0,
        "c_in": 1024.0,
        "c_out": 1024.0,
        "h": 40.0,
        "w": 40.0,
        "ho": 40.0,
        "wo": 40.0,
        "kernel": taps,
    }
    sizes |= {"stride": 1.0, "groups": 1.0, "dilation": 1.0, "x": 4.0, "y": 4.0, "summed": 1.0}
    given = {"transform": 1e-9, "memory": 1.0, "launch": 0.0, "fill": 0.0, "tile": 0.0, "waves": 0.0, "blend": 8.0}
    given |= {"settle": 1.0, "sustained": 1.0, "smallest": 128.0, "compute": 1.0}
    hardware = Hardware(cores=100.0, peak=1e12, bandwidth=1e15, cache=5e7)
    direct, transformed = (
        float(FORMULAS["conv"].time(sizes, hardware, given | {"winograd": share})) for share in (0.0, 1.0)
    )
    assert direct / transformed == pytest.approx(fewer, rel=0.05)
    assert float(FORMULAS["conv"].time(sizes | {"stride": 2.0}, hardware, given | {"winograd": 1.0})) == pytest.approx(
        direct
    )


def test_groups_one_after_the_other_take_as_long_as_convolutions_of_one_group() -> None:
    """Each fills the cores by itself: as long as so many convolutions of its channels, and what each more costs."""
    hardware, groups = Hardware(cores=132.0, peak=1e15, bandwidth=1e18, cache=5e7), 6.0
    given = {"apart": 1e-5, "launch": 1e-6, "sustained": 1.0, "thin": 0.2}
    image = {"images": 8.0, "h": 28.0, "w": 28.0, "ho": 28.0, "wo": 28.0, "dilation": 1.0, "y": 2.0}
    together = CONV | image | {"c_in": 96.0, "c_out": 96.0, "groups": groups}
    single = together | {"c_in": 16.0, "c_out": 16.0, "groups": 1.0}
    family = FORMULAS["conv"]
    each = family.time(single, hardware, given) - given["launch"]
    wanted = given["launch"] + (groups - 1) * given["apart"] + groups * each
    assert family.time(together, hardware, given) == pytest.approx(wanted, rel=1e-3)
    (named,) = [item for item in family.items(together, hardware, given) if item.effect == "groups one after the other"]
    assert named.seconds >= (groups - 1) * given["apart"]
    alone = together | {"groups": 96.0}  # one kernel of the vector units for all channels
    assert family.time(alone, hardware, given) == family.time(alone, hardware, given | {"apart": 0.0})


def test_pixels_are_no_rows_where_channels_lie_together() -> None:
    case = CONV | {"kernel": 1.0, "ho": 7.0, "wo": 7.0}
    assert [key.kernels for key, _ in keys("conv", case, "bf16", "nhwc")] == ["conv-point"]


@pytest.mark.parametrize(
    ("op", "odd"),
    [
        ("nchw", "c_in"),
        ("dgrad_nchw", "c_out"),
        ("transposed_nchw", "c_out"),
        ("nhwc", "c_out"),
        ("wgrad_nchw", "c_in"),
    ],
)
def test_rows_of_channels_decide_what_a_point_is_off(op: str, odd: str) -> None:
    """Channel by channel, only the weights have rows of channels, those of the input; channels last, everything has."""
    case = CONV | {"kernel": 1.0}
    assert [key.kernels for key, _ in keys("conv", case | {odd: 60.0}, "bf16", op)] == ["conv-point-odd"]
    other = {"c_in": "c_out", "c_out": "c_in"}[odd]
    both = op in ("nhwc", "wgrad_nchw")
    wanted = "conv-point-odd" if both else "conv-point"
    assert [key.kernels for key, _ in keys("conv", case | {other: 60.0}, "bf16", op)] == [wanted]


def test_a_family_without_variants_is_its_own_and_some_borrow_a_formula() -> None:
    assert list(keys("moe", {}, "bf16", "x")) == [(Key("moe", "bf16", op="x"), 1.0)]
    assert {name: formula(Key(name, "bf16")).name for name in SHARED} == {"reduce": "stream", "gather": "stream"}


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_a_product_by_hand() -> None:
    """4096 x 4096 x 1024 in two bytes, tiles of 128 x 128 alone worth taking, nothing overlaps."""
    case = {"b": 1.0, "m": 4096.0, "n": 4096.0, "k": 1024.0, "a": 2.0, "w": 2.0, "c": 2.0}
    numbers = {"compute": 0.8, "memory": 0.5, "launch": 3e-6, "tile": 1e-9, "fill": 76.0, "blend": 1.0, "reuse": 1e9}
    numbers |= {"waves": 0.5, "split": 1.0, "sustained": 0.5, "settle": 1e-3, "smallest": 128.0}
    moved = 2 * (4096 * 1024 + 4096 * 1024 + 4096 * 4096) / (0.5 * 1e12)
    # 256 x 128: 16 x 32 = 512 tiles; 128 x 128: 1024 tiles of half the work. 5.12 waves lose half of 0.88,
    # 10.24 lose half of 0.76, so the smaller tile is sooner done: 10.62 x 1 against 5.56 x 2
    each = 2 * 128 * 128 * (1024 + 76) / (0.8 * 1e14 / 100)
    compute = (10.24 + 0.5 * 0.76) * each
    compute *= 1 + (1 / 0.5 - 1) * compute / (compute + 1e-3)  # half the clock under lasting load
    assert FORMULAS["gemm"].time(case, HAND, numbers) == pytest.approx(compute + moved + 3e-6, rel=1e-6)


SPLIT = {"compute": 1.0, "memory": 1.0, "launch": 1e-6, "tile": 1e-9, "fill": 100.0, "blend": 1.0, "reuse": 1e9}
SPLIT |= {"waves": 1.0, "split": 2e-6, "sustained": 1.0, "settle": 1.0, "smallest": 128.0}
STEP = 2 * 128 * 128 / (1e14 / 100)  # seconds of a step of k of a tile of 128 x 128 on one of a hundred cores


def test_a_thin_product_splits_k_by_hand() -> None:
    """128 x 128 over k = 10240: one tile; 40 parts of 256 steps instead of one core's 10240."""
    case = {"b": 1.0, "m": 128.0, "n": 128.0, "k": 10240.0, "a": 2.0, "w": 2.0, "c": 2.0}
    split = (10240 / 40 + 100) * STEP + 2e-6
    assert split < (10240 + 100) * STEP
    moved = 2 * (2 * 128 * 10240 + 128 * 128) / 1e12
    assert FORMULAS["gemm"].time(case, HAND, SPLIT) == pytest.approx(split + moved + 1e-6, rel=1e-6)


def test_a_split_in_two_rounds_pays_for_its_parts_by_hand() -> None:
    """60 tiles on 100 cores: k in 3 parts is 180 units in two rounds, each a third as long; parts are written and read."""
    case = {"b": 60.0, "m": 128.0, "n": 128.0, "k": 30720.0, "a": 2.0, "w": 2.0, "c": 2.0}
    moved = 60 * 2 * (2 * 128 * 30720 + 128 * 128) / 1e12
    whole = (30720 + 100) * STEP  # the cores have room for one part of each tile, so there is no split in one round
    # half a pass over two full rounds of parts, 200 and not 180 of them: fp32, written and read
    parts = 0.5 * 2 * 4 * 200 * 128 * 128 / 1e12
    split = (30720 / 3 + 100) * STEP * 2 + 2e-6 + parts
    assert split < whole
    assert FORMULAS["gemm"].time(case, HAND, SPLIT) == pytest.approx(whole + moved + 1e-6, rel=1e-6)
    told = FORMULAS["gemm"].time(case, HAND, SPLIT | {"parts": 0.5})
    assert told == pytest.approx(split + moved + 1e-6, rel=1e-6)


WEIGHTS = {"images": 8.0, "c_in": 96.0, "c_out": 192.0, "h": 20.0, "w": 20.0, "ho": 20.0, "wo": 20.0, "kernel": 3.0}
WEIGHTS |= {"stride": 1.0, "groups": 1.0, "dilation": 1.0, "x": 2.0, "y": 2.0, "summed": 1.0}


def test_the_gradient_of_the_weights_is_a_product_over_the_pixels() -> None:
    """192 x (96 x 9) over 8 x 20 x 20 pixels, in tiles and parts as a product of matrices; the bytes are the images'."""
    product = {"b": 1.0, "m": 192.0, "n": 96.0 * 9, "k": 8 * 400.0, "a": 0.0, "w": 0.0, "c": 0.0}
    numbers = SPLIT | {"parts": 0.5}
    moved = 2 * (8 * 400 * (96 + 192) + 192 * 96 * 9) / 1e12
    compute = FORMULAS["gemm"].time(product, HAND, numbers)
    gradient = FORMULAS["conv"].time(WEIGHTS, HAND, numbers)
    assert gradient == pytest.approx(compute + moved, rel=1e-6)
    padded = FORMULAS["gemm"].time(product | {"n": 128.0 * 9}, HAND, numbers)
    assert FORMULAS["conv"].time(WEIGHTS, HAND, {**numbers, "padded": 64.0}) == pytest.approx(padded + moved, rel=1e-6)


def test_gradients_and_convolutions_may_be_asked_for_together() -> None:
    larger = WEIGHTS | dict.fromkeys(("h", "w", "ho", "wo"), 30.0)
    together = {**larger, "summed": np.array([0.0, 1.0])}
    apart = [FORMULAS["conv"].time({**larger, "summed": summed}, HAND, SPLIT) for summed in (0.0, 1.0)]
    assert FORMULAS["conv"].time(together, HAND, SPLIT).tolist() == pytest.approx(apart)
    assert apart[0] != apart[1]


@pytest.mark.parametrize(
    ("op", "width", "pixels", "values", "wanted"),
    [
        ("batchnorm_training", 4.0, 196.0, 512 * 56.0, "rows-kept"),
        ("batchnorm_training", 4.0, 196.0, 512 * 56.0 + 1, "rows"),
        ("batchnorm_training", 2.0, 196.0, 512 * 152.0, "rows-kept-paired"),
        ("batchnorm_training", 2.0, 49.0, 512 * 56.0 + 1, "rows"),
        ("batchnorm_backward", 2.0, 49.0, 512 * 28.0, "rows-kept"),
        ("batchnorm_backward", 2.0, 196.0, 512 * 84.0 + 2, "rows"),
        ("batchnorm_training_native_nhwc", 2.0, 49.0, 7 * 256.0, "rows-single"),
        ("batchnorm_training_native_nhwc", 2.0, 49.0, 7 * 256.0 + 1, "rows"),
        ("batchnorm_training_nhwc", 2.0, 49.0, 100.0, "rows"),
    ],
)
def test_variants_of_batch_norms(op: str, width: float, pixels: float, values: float, wanted: str) -> None:
    """A channel of as many values as the registers of 512 threads hold is read once; an even image, two values at a time."""
    sizes = {"rows": 64.0, "cols": values, "x": width, "y": width, "per_row": 0.0, "fresh": 1.0, "pixels": pixels}
    assert [str(key) for key, _ in keys("rows", sizes, "fp32", op)] == [f"{wanted}.{op}.fp32"]


def test_a_stream_by_hand() -> None:
    """30 MB read, 10 MB written of which 5 MB stay in L2 and go twice as fast; two launches."""
    case = {"read": 3e7, "written": 1e7, "flops": 1e7, "special": 1e6, "elements": 1e7, "launches": 2.0}
    numbers = {"memory": 0.8, "launch": 2e-6, "turn": 0.1, "element": 4.0, "blend": 1.0, "kept": 0.5, "inner": 2.0}
    numbers |= {"ramp": 1e-6, "full": 1e7}
    memory = (3e7 + 1e7 - 0.5 * 1e7 / 2 + 0.1 * 4 * 3e7 * 1e7 / 4e7) / (0.8 * 1e12)
    work = (1e7 + 4 * 1e7) / 1e13 + 1e6 / 1e12
    ramp = 1e-6 * 4e7 / (4e7 + 1e7)
    items = {item.effect: item.seconds for item in FORMULAS["stream"].items(case, HAND, numbers)}
    assert FORMULAS["stream"].time(case, HAND, numbers) == pytest.approx(memory + work + ramp + 2 * 2e-6)
    assert items["bytes at achieved bandwidth"] == pytest.approx(4e7 / (0.8 * 1e12))
    assert items["writes kept in L2"] == pytest.approx(-0.25e7 / (0.8 * 1e12))
    assert items["ramp-up"] == pytest.approx(ramp)
    assert items["launch"] == pytest.approx(4e-6)


@pytest.mark.parametrize(("holds", "again"), [(1e5, 0.0), (1e4, 0.5)])
def test_rows_by_hand(holds: float, again: float) -> None:
    """1000 rows of 8192 elements of two bytes: 16 kB a row, read again where they do not stay on chip."""
    case = {"rows": 1000.0, "cols": 8192.0, "x": 2.0, "y": 2.0, "per_row": 0.0, "fresh": 1.0}
    numbers = {"memory": 0.5, "launch": 2e-6, "serial": 1e-9, "row": 1e-8, "element": 1e-11, "blend": 1.0}
    numbers |= {"holds": holds, "again": 0.5, "kept": 0.01, "inner": 1.0}
    size = 1000 * 8192 * 2
    memory = size * (2 + again) / (0.5 * 1e12)
    crowd = 1000 * (1e-8 + 8192 * 1e-11 * (1 + again)) / 100
    alone = 8192 * 1e-9 * (1 + again)
    assert FORMULAS["rows"].time(case, HAND, numbers) == pytest.approx(memory + crowd + alone + 2e-6)


def test_decoding_by_hand() -> None:
    """30 sequences of one head over 4096 keys, each split in three over 100 places; the cache far beyond L2."""
    case = {"batch": 30.0, "heads": 8.0, "shared": 1.0, "q": 1.0, "kv": 4096.0, "d": 128.0, "causal": 0.0}
    case |= {"x": 2.0, "stored": 2.0}
    numbers = {"memory": 0.5, "launch": 5e-6, "core": 2.0, "waves": 0.5, "compute": 0.1, "blend": 1.0, "split": 2e-6}
    numbers |= {"cached": 4.0, "holds": 1e-9, "sequence": 1e-8, "fill": 2e-5, "together": 1.0}
    held = 2 * 30 * 4096 * 128 * 2
    memory = (held + 2 * 30 * 8 * 128 * 2) / (0.5 * 1e12)
    compute = 4 * 30 * 16 * 4096 * 128 / (0.1 * 1e14)  # eight query heads padded to sixteen rows
    one = 4096 / 3 * (2 * 128 * 2) / (2 * 1e12 / 100) + 2e-5  # two rounds of six parts each would pay this twice
    late = one + 2e-6  # a full round, though 90 places of 100 are taken
    wanted = memory + compute + late + 30 * 1e-8 + 5e-6
    assert FORMULAS["decode"].time(case, HAND, numbers) == pytest.approx(wanted, rel=1e-6)


# -- timings nearby ----------------------------------------------------------------------------------------------------


def solved(sizes: dict[str, Any], ratio: Any, reach: float = 1.0, noise: float = 0.25) -> nearby.Nearby:
    rows = nearby.rows(tuple(sizes), sizes, len(ratio))
    return nearby.solved(tuple(sizes), rows, np.log(ratio), np.full(len(sizes), reach), noise)


def test_two_timings_an_octave_apart_by_hand() -> None:
    """Likeness 1/2 an octave apart at a reach of one: (1.25 0.5; 0.5 1.25) w = (r, 0), so w = r (1.25, -0.5) / 1.3125."""
    error = np.log(1.1)
    table = solved({"m": np.array([64.0, 128.0])}, np.array([1.1, 1.0]))
    first, second = 1.25 * error / 1.3125, -0.5 * error / 1.3125
    assert table.weights.tolist() == pytest.approx([first, second])
    assert table.correction({"m": 64.0}) == pytest.approx(first + second / 2)
    assert table.correction({"m": 128.0}) == pytest.approx(first / 2 + second)
    assert table.correction({"m": 256.0}) == pytest.approx(first / 5 + second / 2)
    assert abs(table.correction({"m": 64.0 * 2**20})) < 1e-3  # far from all of them the formula stands alone
    twice = solved({"m": np.array([64.0, 256.0])}, np.array([1.1, 1.0]), reach=2.0)
    assert twice.weights.tolist() == pytest.approx([first, second])  # two octaves at a reach of two are the same


def test_no_correction_exceeds_a_factor_of_two() -> None:
    table = solved({"m": np.full(5, 64.0)}, np.full(5, 40.0), noise=0.001)
    assert table.correction({"m": 64.0}) == pytest.approx(nearby.MAX_LOG_ERROR, rel=1e-3)
    heavy = nearby.Nearby(("m",), np.array([[64.0]]), np.ones(1), np.array([900.0]))
    assert heavy.correction({"m": 64.0}) == nearby.MAX_LOG_ERROR


def test_a_table_of_misses_of_an_earlier_version_is_read() -> None:
    old = nearby.read("m missed\n64 0.1\n128 0.0")
    sizes = {"m": np.array([64.0, 128.0])}
    new = solved(sizes, np.exp([0.1, 0.0]), nearby.USUAL_REACH, nearby.USUAL_NOISE)
    assert old.weights.tolist() == pytest.approx(new.weights.tolist())


TIMED = st.lists(st.tuples(some(1, 2**20), some(1, 2**20), wide(0.1, 10.0)), min_size=1, max_size=20)


@law(50)
@given(TIMED, st.lists(st.tuples(some(1, 2**20), some(1, 2**20)), min_size=1, max_size=20))
def test_a_correction_is_the_same_together_as_alone_and_after_reading(timed: Any, cases: Any) -> None:
    m, n, ratio = (np.array(values) for values in zip(*timed, strict=True))
    table = solved({"m": m, "n": n}, ratio)
    together = table.correction({"m": np.array([m for m, _ in cases]), "n": np.array([n for _, n in cases])})
    assert np.all(np.abs(together) <= nearby.MAX_LOG_ERROR)
    assert near(together, [table.correction({"m": m, "n": n}) for m, n in cases])
    again = nearby.read(table.text())
    assert again.names == table.names
    order = np.lexsort(table.sizes[::-1])  # as they are stored, with four digits
    assert np.allclose(again.sizes, table.sizes[:, order], rtol=5.1e-4)
    assert again.reach.tolist() == table.reach.tolist()
    assert np.allclose(again.weights, table.weights[order], atol=5.1e-4)


@pytest.mark.parametrize(
    "text",
    [
        *("", "m missed", "missed\n1", "m\n1", "m missed\n1", "m missed\n1 x", "m missed\n1 nan"),
        *("m weight\n1 1", "m weight\nreach 1", "m weight\nreach 0\n1 1", "m weight\nreach 1 1\n1 1"),
        *(
            "m weight\nreach x\n1 1",
            "m weight\nreach 1\n1 inf",
            "a b c d e f g h i j weight\nreach 1 1 1 1 1 1 1 1 1 1\n" + "1 " * 11,
            "columns m c_in_step weight\nreach 1 1\n1\n1",
        ),
    ],
)
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        nearby.read(text)
