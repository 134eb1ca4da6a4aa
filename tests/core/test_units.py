"""Text to base units and back; axes of sweeps."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.units import axis, counted, number, parse, percent, show, show_interval, time_unit


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("3.35 TB/s", "B/s", 3.35e12),
        ("3.35TB/s", "B/s", 3.35e12),
        ("  3350   GB/s  ", "B/s", 3.35e12),
        ("900 GBps", "B/s", 9e11),
        ("2 TiB/s", "B/s", 2 * 2**40),
        ("989 TFLOP/s", "flop/s", 989e12),
        ("989 TFLOPS", "flop/s", 989e12),  # capital S: per second
        ("989 Tflop/s", "flop/s", 989e12),
        ("989 TFLOPs/s", "flop/s", 989e12),
        ("1979 TOPS", "flop/s", 1979e12),
        ("1979 TOP/s", "flop/s", 1979e12),
        ("1.2 PFLOP/s", "flop/s", 1.2e15),
        ("2.5 Tflop", "flop", 2.5e12),
        ("2.5 TFLOPs", "flop", 2.5e12),  # small s: the plural of an amount
        ("2.5 TFLOP", "flop", 2.5e12),
        ("1 EFLOP", "flop", 1e18),
        ("80 GB", "B", 80e9),
        ("80 GiB", "B", 80 * 2**30),
        ("50 MiB", "B", 50 * 2**20),
        ("228 KiB", "B", 228 * 1024),
        ("1 KB", "B", 1000.0),
        ("1 kB", "B", 1000.0),
        ("7 bytes", "B", 7.0),
        ("8 us", "s", 8e-6),
        ("8 µs", "s", 8e-6),  # the micro sign
        ("8 μs", "s", 8e-6),  # the Greek letter
        ("250 ns", "s", 250e-9),
        ("3 ms", "s", 3e-3),
        ("1.83 GHz", "Hz", 1.83e9),
        ("700 W", "W", 700.0),
        ("0.3 pJ/flop", "J/flop", 0.3e-12),
        ("20 pJ/B", "J/B", 20e-12),
        ("5.2 GT/s", "T/s", 5.2e9),
        ("5120 bit", "bit", 5120.0),
        ("295 flop/B", "flop/B", 295.0),
        ("1e12", "flop/s", 1e12),  # a bare number is in base units already
        ("1_000", "B", 1000.0),
        (".5 GB", "B", 0.5e9),
        ("1.5e3 GB", "B", 1.5e12),
        (42, "B", 42.0),
        (0.5, "s", 0.5),
        ("0 B", "B", 0.0),
        ("-3 us", "s", -3e-6),  # the sign is the caller's business: a clock may drift backwards
    ],
)
def test_parse(text: str | float, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "words"),
    [
        ("989 TFLOPs", "flop/s", "amount of work"),  # an amount where a rate is asked for
        ("989 TFLOP", "flop/s", "amount of work"),
        ("989 Tflops", "flop/s", "amount of work"),
        ("989 TFLOPS", "flop", "rate of work"),
        ("3.35 TB", "B/s", "amount of data"),
        ("3.35 TB/s", "B", "bandwidth"),
        ("5.2 GT/s", "B/s", "transfer rate"),
        ("8 us", "Hz", "time"),
        ("1.8 GHz", "s", "clock"),
        ("700 W", "J", "power"),
    ],
)
def test_an_amount_is_never_read_as_a_rate(text: str, unit: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse(text, unit)


@pytest.mark.parametrize("text", ["", "fast", "TB/s", "nan", "inf", "-inf", "1e400", "1e400 B/s", "3 XB/s", "3 B/s/s", "--3",
                                  "1e B", "3,35 TB/s", "3 GB/h", float("nan"), float("inf"), True, None, [1]])  # fmt: skip
def test_garbage_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(InputError, match=r"3\.35 TB/s"):
        parse(text, "B/s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3.352e12, "B/s", "3.35 TB/s"),
        (989.4e12, "flop/s", "989 TFLOP/s"),
        (2.147e9, "flop", "2.15 GFLOP"),
        (8e-6, "s", "8 us"),
        (1.2345e-3, "s", "1.23 ms"),
        (60.0, "s", "60 s"),
        (0.3e-12, "J/flop", "0.3 pJ/flop"),
        (170.666, "flop/B", "171 FLOP/B"),
        (0.083333, "flop/B", "0.0833 FLOP/B"),
        (999.0, "B", "999 B"),
        (1000.0, "B", "1 kB"),
        (0.0, "B", "0 B"),
        (-2e9, "B", "-2 GB"),
        (None, "B", "-"),
        (math.nan, "B", "-"),
        (math.inf, "B", "inf"),
        (-math.inf, "B", "-inf"),
        (42.0, "", "42"),
        (134217728, "", "134,217,728"),
        (134217728.0, "", "134 M"),
        (1365.33, "flop/B", "1,365 FLOP/B"),
        (787_043.0, "%", "787,043 %"),
    ],
)
def test_show(value: float | None, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_binary_prefixes_only_where_asked_for() -> None:
    assert show(40 * 2**20, "B", binary=True) == "40 MiB"
    assert show(40 * 2**20, "B") == "41.9 MB"


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("1e8", 1e8), ("2^20", 2**20), ("2**20", 2**20), ("64Ki", 65536), ("1M", 1e6), ("1_024", 1024),
     ("3.", 3), (" 7 ", 7), ("2 Gi", 2**31), ("-5", -5), ("0^0", 1), ("1^99999999", 1)],
)  # fmt: skip
def test_number(text: str, value: float) -> None:
    assert number(text) == value


@pytest.mark.parametrize("text", ["", "x", "4096 B", "1m", "2^", "^3", "2^5000", "nan", "inf", "1..2", "2^-1", "1 2"])
def test_number_refuses(text: str) -> None:
    with pytest.raises(InputError):
        number(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..8192", [2.0**i for i in range(14)]),  # doubling
        ("3..100", [3, 6, 12, 24, 48, 96]),  # while not past the last
        ("1..100:10", [1, 11, 21, 31, 41, 51, 61, 71, 81, 91]),
        ("10..100:10", [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),  # both ends
        ("1..4096:x4", [1, 4, 16, 64, 256, 1024, 4096]),
        ("1,8,64", [1, 8, 64]),
        ("64,8,1", [64, 8, 1]),  # as typed, not sorted
        ("1,2..8,100", [1, 2, 4, 8, 100]),  # lists of sweeps
        ("5..5", [5]),
        ("1Ki..4Ki", [1024, 2048, 4096]),
        ("2^3..2^5", [8, 16, 32]),
        ("7,", [7]),
    ],
)
def test_axis(text: str, values: list[float]) -> None:
    found = axis(text)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, values)


def test_one_value_stays_a_scalar() -> None:
    assert axis("64") == 64.0
    assert isinstance(axis("64"), float)


@pytest.mark.parametrize(
    "text", ["", ",", "8..1", "0..8", "-4..8", "1..", "..8", "1..8:0", "1..8:-1", "1..8:x1", "1..8:x0.5", "1..8:x",
             "1..8:y", "1..8..16", "1..1e9:1", "a..b", "1;2"],
)  # fmt: skip
def test_axis_refuses(text: str) -> None:
    with pytest.raises(InputError):
        axis(text)


# -- corners that were wrong once --------------------------------------------------------------------------------


def test_a_shown_intensity_reads_back() -> None:
    assert parse(show(295.2, "flop/B"), "flop/B") == pytest.approx(295.2, rel=1e-3)


@pytest.mark.parametrize("value", [999.96, 999_999.0, 9.9999e22])
def test_a_value_that_rounds_up_to_the_next_prefix_reads_back(value: float) -> None:
    assert parse(show(value, "B"), "B") == pytest.approx(value, rel=1e-3)


def test_three_digits_are_three_digits() -> None:
    assert show(1.23456e-5, "") == "1.23e-05"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.842, "84 %"),
        (0.0537, "5.4 %"),
        (1.0, "100 %"),
        (0.003, "0.3 %"),
        (0.0001, "<0.1 %"),
        (9.3e-9, "<0.1 %"),
        (-0.0006, ">-0.1 %"),
        (-0.02, "-2 %"),
        (0.0, "0 %"),
        (None, "-"),
    ],
)
def test_shares_in_sentences(share: float | None, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        ([12.2e-6, 165e-6], "us"),
        ([7.19e-6, 4.69e-3], "us"),  # 0.00719 ms would say little
        ([0.165e-3, 2.29e-3], "ms"),
        ([0.9999999e-3], "ms"),  # rounds up to the next unit
        ([0.0, 3.0], "s"),
        ([], "s"),
    ],
)
def test_several_times_share_one_unit(times: list[float], unit: str) -> None:
    assert time_unit(times)[1] == unit


def test_an_interval_has_the_unit_of_its_time() -> None:
    assert show_interval(167e-6, 149e-6, 190e-6) == "167 us [149-190]"
    assert show_interval(2.78e-3, 0.919e-3, 4.78e-3) == "2.78 ms [0.919-4.78]"


@pytest.mark.parametrize("text", ["1e400", "1..1e400", "1..1e400:10"])
def test_infinite_sizes_are_refused(text: str) -> None:
    try:
        found = axis(text)
    except InputError:
        return
    assert np.all(np.isfinite(found))


def test_a_sweep_by_tiny_factors_is_refused() -> None:
    with pytest.raises(InputError, match="--limit cases="):
        axis("1..40000:x1.000001")


@pytest.mark.parametrize(("count", "text"), [(0, "0 cores"), (1, "1 core"), (2, "2 cores")])
def test_counts_take_the_plural(count: int, text: str) -> None:
    assert counted(count, "core") == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1GB", 1e9), ("1 GB", 1e9), ("64MiB", 2**26), ("1e9", 1e9), ("1G", 1e9), ("2^20", 2**20), ("512B", 512), ("7bytes", 7)],
)  # fmt: skip
def test_an_amount_of_data_may_carry_its_unit(text: str, value: float) -> None:
    assert number(text, "B") == value


@pytest.mark.parametrize(("text", "value"), [("4k", 4000), ("4K", 4000), ("4Ki", 4096), ("16M", 16e6), ("1e8", 1e8)])
def test_sizes_count_in_thousands_unless_they_say_ki(text: str, value: float) -> None:
    assert number(text) == value


def test_a_sweep_of_amounts_of_data() -> None:
    assert list(np.atleast_1d(axis("1MiB..4MiB", "B"))) == [2**20, 2**21, 2**22]
    assert list(np.atleast_1d(axis("1kB..3kB:1kB", "B"))) == [1000, 2000, 3000]


@pytest.mark.parametrize(
    ("text", "unit", "example"),
    [("64MiB", "", "64Ki"), ("1GB/s", "B", "1GB"), ("big", "B", "64MiB"), ("4kk", "", "16M")],
)
def test_what_is_no_number_gets_examples(text: str, unit: str, example: str) -> None:
    with pytest.raises(InputError, match=f"'{text}' is not a number; write .*{example}"):
        number(text, unit)


HOSTILE = [
    "1" * 100_000,
    "1" * 100_000 + "x",
    "1_" * 50_000 + "x",
    "1,111" * 20_000,
    "1" + " " * 100_000 + "x",
    "1e" + "9" * 5000,
    "١٢",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:8]} of {len(text)}")
def test_long_numbers_get_one_short_message_without_trying_twice(text: str) -> None:
    """Each of these took minutes where a pattern could split its digits in many ways."""
    for read in (number, lambda text: parse(text, "B"), lambda text: axis(f"1..{text}")):
        try:
            shown = f"{np.max(read(text)):g}"
        except InputError as error:
            shown = str(error)
        assert len(shown) < 300
        assert shown not in ("inf", "nan")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1..1e308E", "'1e308E' is too large to count with"),
        ("5e-324..1", "runs upwards from a positive value"),
        ("1..10:1e-320", "the step after ':' is too small"),
        ("1..1e7:1,1..1e7:1", "--limit cases="),
        ("1..1e90:1", "--limit cases="),
    ],
)
def test_a_sweep_is_counted_before_it_is_made(text: str, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        axis(text)


@given(st.text(alphabet="0123456789.,:x_eE+-KiMG^ ", max_size=30))
def test_an_axis_is_finite_or_refused(text: str) -> None:
    try:
        values = axis(text)
    except InputError:
        return
    assert np.all(np.isfinite(values))
