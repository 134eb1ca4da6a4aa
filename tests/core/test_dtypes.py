"""Number formats: what an element occupies, what computes it, what a product of it is stored as."""

from __future__ import annotations

import pytest

from ridgeline.core.dtypes import ALIASES, ROWS, TABLE, Dtype, dtype, result
from ridgeline.core.errors import UnknownName


def packed(bits: float, block: int, scale_bits: float, blocks: int = 4) -> float:
    """Bits per element of `blocks` blocks written out one after the other, each with its own scale."""
    stream = sum([bits] * block * blocks) + sum([scale_bits] * blocks)
    return stream / (block * blocks)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp64", 64), ("fp32", 32), ("tf32", 32), ("bf16", 16), ("fp16", 16), ("fp8_e4m3", 8), ("fp8_e5m2", 8),
        ("int32", 32), ("int8", 8), ("int4", 4), ("int1", 1),
        ("mxfp8", packed(8, 32, 8)), ("mxfp6", packed(6, 32, 8)), ("mxfp4", packed(4, 32, 8)),  # an E8M0 per 32
        ("nvfp4", packed(4, 16, 8)),  # an E4M3 per 16
        ("int4_g128", packed(4, 128, 16)),  # an fp16 scale per 128
        ("int4_g128z", packed(4, 128, 16 + 4)),  # and a 4-bit zero point
        ("int8_g64", packed(8, 64, 16)), ("int8_g64z", packed(8, 64, 16 + 8)), ("fp8_g128", packed(8, 128, 16)),
    ],
)  # fmt: skip
def test_bits_stored_per_element(name: str, bits: float) -> None:
    assert dtype(name).stored_bits == bits
    assert dtype(name).bytes == bits / 8


def test_the_printed_widths() -> None:
    """The same as numbers: 8.25, 6.25, 4.25, 4.5, 4.125; tf32 occupies 4 bytes (C-22)."""
    widths = {name: dtype(name).stored_bits for name in ("mxfp8", "mxfp6", "mxfp4", "nvfp4", "int4_g128", "int4_g128z")}
    assert widths == {
        "mxfp8": 8.25, "mxfp6": 6.25, "mxfp4": 4.25, "nvfp4": 4.5, "int4_g128": 4.125, "int4_g128z": 4.15625,
    }  # fmt: skip
    assert dtype("tf32").bytes == 4


@pytest.mark.parametrize(
    ("alias", "name"),
    [("float64", "fp64"), ("double", "fp64"), ("float32", "fp32"), ("float", "fp32"), ("bfloat16", "bf16"),
     ("half", "fp16"), ("fp8", "fp8_e4m3"), ("e5m2", "fp8_e5m2"), ("float8_e4m3fn", "fp8_e4m3"), ("i8", "int8"),
     ("binary", "int1"), ("torch.bfloat16", "bf16"), ("torch.float8_e5m2", "fp8_e5m2"), ("  BF16 ", "bf16")],
)  # fmt: skip
def test_aliases(alias: str, name: str) -> None:
    assert dtype(alias).name == name


def test_every_alias_leads_to_a_row_and_hides_none() -> None:
    assert set(ALIASES.values()) <= set(TABLE)
    assert not set(ALIASES) & set(TABLE)
    assert len(TABLE) == len(ROWS)


def test_a_row_is_its_own_answer() -> None:
    row = Dtype("mine", 12, "fp32", "fp16")
    assert dtype(row) is row


@pytest.mark.parametrize("name", ["fp7", "int4_g0", "int4_g", "int4_g-1", "nothing_g128", "", "bf16z"])
def test_unknown_formats(name: str) -> None:
    with pytest.raises(UnknownName, match="_g128"):
        dtype(name)


def test_a_near_miss_is_named() -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*bf16"):
        dtype("bf61")


@pytest.mark.parametrize(
    ("name", "stored"),
    [("fp64", "fp64"), ("fp32", "fp32"), ("tf32", "tf32"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp8", "bf16"),
     ("e5m2", "bf16"), ("mxfp8", "bf16"), ("mxfp6", "bf16"), ("mxfp4", "bf16"), ("nvfp4", "bf16"), ("int8", "int32"),
     ("int4", "int32"), ("int4_g128", "int32"), ("int1", "int32"), ("int32", "int32")],
)  # fmt: skip
def test_what_a_product_is_stored_as(name: str, stored: str) -> None:
    assert result(name).name == stored


def test_accumulators_are_rows_and_at_least_as_wide() -> None:
    for row in ROWS:
        assert TABLE[row.accumulator].bits >= row.bits
        assert TABLE[row.accumulator].integer == row.integer


def test_vector_units_widen_narrow_formats() -> None:
    assert {row.vector for row in ROWS if row.bits <= 16} == {"fp32"}
    assert (dtype("fp64").vector, dtype("int32").vector) == ("fp64", "int32")


def test_both_fp8_encodings_run_at_one_rate() -> None:
    assert dtype("fp8_e4m3").math == dtype("fp8_e5m2").math == "fp8"


def test_a_group_changes_storage_and_nothing_else() -> None:
    plain, grouped = dtype("int4"), dtype("int4_g128")
    assert (grouped.math, grouped.vector, grouped.accumulator, grouped.result) == (
        plain.math, plain.vector, plain.accumulator, plain.result,
    )  # fmt: skip


@pytest.mark.parametrize("digits", ["5" * 5000, "5" * 10, "٣", "0"])
def test_a_group_is_a_number_that_a_tensor_can_have(digits: str) -> None:
    with pytest.raises(UnknownName, match="unknown dtype") as caught:
        dtype(f"int4_g{digits}")
    assert len(str(caught.value)) < 300
