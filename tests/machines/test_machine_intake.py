"""Any TOML is a machine or one message; a machine that was read is written and read again to the same machine."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.errors import SchemaError
from ridgeline.core.machine import Machine
from ridgeline.machines import files, schema
from ridgeline.machines import write as save
from ridgeline.machines.merge import figures
from strategies import law

TOY = """
name = "toy"
title = "A toy"
vendor = "nobody"
kind = "gpu"
source = "doc"
[sources]
doc = "a document"
"""


def read(text: str) -> Machine | SchemaError:
    """What becomes of a text: a machine, or a message of printable lines."""
    try:
        return schema.read(text, "toy.toml")
    except SchemaError as error:
        refusal = error
    assert refusal.complaints
    assert all(line.isprintable() and len(line) < 1000 for line in str(refusal).splitlines())
    return refusal


def assert_in_order(machine: Machine) -> None:
    """Every figure is finite and above zero, every text can be printed, and the file that is written says the same."""
    for figure in figures(machine).values():
        for value in (figure.stated, figure.derived, figure.measured, figure.sustained):
            assert value is None or 0 < value < math.inf
    document = to_document(machine)
    assert repr(document).isprintable()
    again = schema.read(save.text(machine), machine.file)
    assert to_document(again) == document
    assert again == machine


# sorted, because the order of a set differs from run to run
KEYS = st.sampled_from(
    [*sorted({*schema.TOP, *schema.LEVEL, *schema.LINK}), "stated", "derive", "measured", "measurement", "vector", "tensor", "dense",
     "bf16", "fp32", "spread", "value", "bus", "rate", "clock", "units", "per_cycle", "gemm.bf16", "coefficients"]
) | st.text(max_size=5)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates(),
        st.sampled_from(["doc", "1 GHz", "2 TB/s", "3 TFLOP/s", "1e999 B/s", "-1 B", "4 GiB", "5 us", "\x1b[2J", 10**400, "9" * 2000]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@law(120)
@given(st.dictionaries(KEYS, VALUES, max_size=8), st.booleans())
@example({"level": [{"name": "hbm", "mixes": {"read": {}}}]}, True)
@example({"level": [{"name": "a"}] * 3, "released": True, "notes": "one"}, True)
def test_any_document_is_a_machine_or_one_message(document: dict[str, Any], toy: bool) -> None:
    try:
        text = tomli_w.dumps({"name": "toy", "title": "A toy", "vendor": "x", "kind": "cpu", **document})
    except (ValueError, TypeError):  # what TOML cannot say
        return
    result = read(text if toy else tomli_w.dumps(document))
    if isinstance(result, Machine):
        assert_in_order(result)


@law(300)
@given(st.text())
def test_any_text_is_a_machine_or_one_message(text: str) -> None:
    assert isinstance(read(text), SchemaError)


WORDS = ["nan", "inf", "-1", "0", "1e308", "9" * 400, "9" * 5000, "0x" + "f" * 9000, "[]", "{}", "[[[[]]]]", '""', "true", "2020-01-01", '"1e308 TB/s"', '"\\u001b[31m"', "5"]  # fmt: skip
FILES = [(files.CATALOG / f"{name}.toml").read_text(encoding="utf-8") for name in ("t4", "epyc-9654")]
FILES += [(files.MEASURED / "h200-sxm.toml").read_text(encoding="utf-8")]


@law(150)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(WORDS)), max_size=3))
def test_a_catalog_file_with_other_values_is_a_machine_or_one_message(
    text: str, changes: list[tuple[int, str]]
) -> None:
    for place, word in changes:
        values = list(re.finditer(r"(?<== )(\"[^\"\n]*\"|\d+(\.\d+)?|\[[^\]\n]*\]|\{[^}\n]*\})", text))
        chosen = values[place % len(values)]
        text = text[: chosen.start()] + word + text[chosen.end() :]
    result = read(text)
    if isinstance(result, Machine):
        assert_in_order(result)


@pytest.mark.parametrize("name", ["t4", "h200-sxm", "epyc-9654", "tpu-v4"])
def test_machines_of_the_catalog_are_in_order(name: str) -> None:
    assert_in_order(schema.read(save.text(rl.machine(name)), "a file"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = " + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("x = " + "{a=" * 5000 + "1" + "}" * 5000, "nested too deep"),
        ("a" + ".a" * 100_000 + " = 1", "a key has more than 10 parts"),
        ("[" + '"a" . ' * 100_000 + "a]", "a key has more than 10 parts"),
        ("aaaaaaaa" * 100_000 + " = 1", "unknown key"),
        ("released = " + "9" * 5000, "a number has too many digits"),
        ("released = " + "9" * 400, "released: is a number with too many digits; it is a whole number"),
        ("released = 0x" + "f" * 5000, "released: is a number with too many digits; it is a whole number"),
        ("[[level]]\n" * 840_000, "has more than 838,860 values"),
        ("aliases = 5", "aliases: must be a list, found 5"),
        ("[per_cycle]\nfp32 = nan", "per_cycle.fp32: is nan; it is a number from"),
        ("[conditions]\na = [1]", "conditions.a: must be a text, found a list of 1"),
        ('[peak.vector]\nfp32 = { derive = { units = 1, per_cycle = nan, clock = "1 GHz" } }', "per_cycle: is nan"),
        ('[peak.vector]\nfp32 = { derive = { units = 1e9, per_cycle = 1e9, clock = "1e14 Hz" } }', "it is from 1 to 1e+27"),
        ('[peak.vector]\nfp32 = { stated = "1' + "0" * 2000 + ' B/s" }', "must be a text with its unit"),
        ('[limit]\n"\\u0001" = 1', "unknown key '\ufffd'"),
        ('[units]\n"a\\u0001" = 1\n"a\\u0002" = 1', "two keys that differ only in what cannot be printed"),
        ("[[link]]\nname = 'a'\n[[link]]\nname = 'a'", "link a: is given more than once"),
        ("fitted_from = 'h300'", "fitted_from: is 'h300'; it is one of a100-pcie-40gb"),
        ("fitted_from = 3", "fitted_from: must be a text, found 3"),
    ],
    ids=lambda value: value[:24],
)  # fmt: skip
def test_mistakes_are_named(text: str, complaint: str) -> None:
    result = read(TOY.replace("[sources]", f"{text}\n[sources]") if "[" not in text[:1] else TOY + text)
    assert isinstance(result, SchemaError)
    assert complaint in str(result)


def test_coefficients_of_the_catalog_are_those_of_the_same_gpu_only() -> None:
    """A file of another vendor's board that named an H100's was predicted as if it had been timed."""
    result = read(TOY.replace('kind = "gpu"', 'kind = "gpu"\nfitted_from = "l4"'))
    assert isinstance(result, SchemaError)
    assert "fitted_from: is the NVIDIA L4" in str(result)
    assert "leave it out, and other machines lend their coefficients" in str(result)


def test_texts_are_cleaned() -> None:
    text = TOY.replace("A toy", "A \\u001b[31mred\\u001b[0m\\ntoy") + "[[level]]\nname = 'hbm\\u0007'\n".replace(
        "'", '"'
    )
    machine = schema.read(text, "toy.toml")
    assert machine.title == "A red toy"
    assert machine.main.name == "hbm\ufffd"


def test_a_bare_text_is_a_stated_peak() -> None:
    machine = schema.read(TOY + "[[level]]\nname = 'hbm'\n[peak.tensor.dense]\nbf16 = '120 Tflop/s'\n", "toy.toml")
    assert machine.peaks["tensor.bf16"].stated == 120e12
