"""The door: text is cleaned, values are typed and finite, complaints come together, limits name the option that raises them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError, SchemaError
from ridgeline.core.intake import Door, at, clean, limit, limits, refuse_over

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(st.characters()))
def test_clean_text_is_one_printable_line_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert clean(cleaned) == cleaned
    cleaned.encode("utf-8")
    if text.isprintable():
        assert cleaned == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("bell\x07, null\0", "bell\ufffd, null\ufffd"),
        ("\udc80surrogate", "\ufffdsurrogate"),
        ("right\u202eto left", "right\ufffdto left"),
        ("a" * 20, "a" * 8 + "..."),
    ],
)
def test_what_is_cleaned(text: str, cleaned: str) -> None:
    assert clean(text, 8 if set(text) == {"a"} else 1000) == cleaned


@given(ANYTHING)
def test_whatever_comes_is_of_its_type_or_complained_of(value: object) -> None:
    door = Door("document")
    text, number = door.text(value, "text"), door.number(value, "number", 1.0, 10.0)
    numbers, table = door.numbers(value, "numbers"), door.table(value, "table")
    amounts, texts = door.amounts(value, "amounts"), door.texts(value, "texts")
    door.schema(value, 1)
    plain = door.plain(value, "plain")
    assert text.isprintable()
    assert 1.0 <= number <= 10.0
    assert all(math.isfinite(each) for each in (*numbers, *amounts.values()))
    assert all(key.isprintable() for key in table)
    assert all(each.isprintable() for each in texts)
    assert str(plain).isprintable()
    with pytest.raises(SchemaError) as raised:
        door.close()
    assert all(line.isprintable() for line in str(raised.value).splitlines())


def test_complaints_come_together_with_their_places() -> None:
    door = Door("cases.csv")
    door.number("twelve", at(3, "m"))
    door.number(math.nan, at(4, "m"))
    door.number(10**400, at(5, "m"))
    door.number(1.5, at(6, "count"), whole=True)
    door.text(["a"], at(7, "name"))
    with pytest.raises(SchemaError) as raised:
        door.close()
    assert raised.value.complaints == [
        "row 3, column m: is 'twelve'; it is a number from 0 to 1e+100",
        "row 4, column m: is nan; it is a number from 0 to 1e+100",
        "row 5, column m: is a number with too many digits; it is a number from 0 to 1e+100",
        "row 6, column count: is 1.5; it is a whole number from 0 to 1e+100",
        "row 7, column name: must be a text, found a list of 1",
    ]


def test_a_number_next_to_zero_is_refused_because_ratios_with_it_are_infinite() -> None:
    door = Door("timings.json")
    assert door.number(0.0, "bytes") == 0.0
    door.number(5e-324, "bytes")
    assert door.complaints == ["bytes: is 5e-324; it is 0, or at least 1e-100"]


def test_many_complaints_are_counted() -> None:
    door = Door("cases.csv")
    for row in range(1000):
        door.number(-1, at(row))
    with pytest.raises(SchemaError, match="and 980 more"):
        door.close()


def test_nesting_is_limited() -> None:
    value: object = 1
    for _ in range(40):
        value = [value]
    door = Door("document")
    door.plain(value, "settings")
    assert "nested deeper than 32" in door.complaints[0]


def test_over_a_limit_is_refused_with_the_option_that_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_given", {})
    refuse_over("rows", 20e6, "'a.csv'")
    with pytest.raises(InputError, match=r"'a.csv' is over the limit of 20,000,000 .*--limit rows=4e7"):
        refuse_over("rows", 20e6 + 1, "'a.csv'")
    with pytest.raises(InputError, match=r"limit of 8 GiB .*--limit read=16GiB"):
        refuse_over("read", 9e9, "'a.json.gz' unpacked")
    limits.set_limits(["rows=4e7", "read=16GiB"])
    assert limit("read") == 16 * 2**30
    refuse_over("rows", 30e6, "'a.csv'")


@pytest.mark.parametrize("word", ["rows", "rows=", "rows=-1", "rows=much", "columns=3", "rows=1e400"])
def test_a_limit_that_is_none_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_given", {})
    with pytest.raises(InputError):
        limits.set_limits([word])
