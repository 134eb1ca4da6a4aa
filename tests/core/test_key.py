"""Keys of coefficients: text and back, ever wider, and every key that is shipped."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.families import FORMULAS, SHARED, VARIANTS
from ridgeline.core.families.key import Key
from ridgeline.machines.coefficients import FOLDER
from strategies import law

WORD = st.from_regex(r"[a-z][a-z0-9_]{0,7}", fullmatch=True)
DASHED = st.lists(WORD, min_size=1, max_size=3).map("-".join)
KEYS = st.builds(
    Key,
    family=WORD,
    dtype=DASHED,
    variant=st.just("") | DASHED,
    op=st.just("") | WORD,
    backend=st.just("") | st.from_regex(r"[a-z][a-z0-9.@-]{0,9}", fullmatch=True),
)


@law(200)
@given(KEYS)
def test_a_key_is_read_as_it_was_written(key: Key) -> None:
    assert Key.parse(str(key)) == key


@law(200)
@given(KEYS)
def test_wider_keys_end_at_the_family_and_each_is_met_once(key: Key) -> None:
    wider = list(key.wider())
    assert wider[0] == key
    assert wider[-1] == Key(key.family, key.dtype, backend=key.backend)
    assert len(set(wider)) == len(wider)
    for before, after in itertools.pairwise(wider):
        assert before.variant.startswith(after.variant)
    variants = list(key.wider_variants())
    assert variants == [each for each in wider if each.op == key.op]


def test_the_op_of_a_variant_comes_before_any_op_of_it_and_that_before_a_wider_variant() -> None:
    assert [str(key) for key in Key.parse("gemm-few-odd.bmm.bf16@lib").wider()] == [
        "gemm-few-odd.bmm.bf16@lib", "gemm-few-odd.bf16@lib", "gemm-few.bmm.bf16@lib", "gemm-few.bf16@lib",
        "gemm.bmm.bf16@lib", "gemm.bf16@lib",
    ]  # fmt: skip


def test_the_parts_of_a_key() -> None:
    key = Key.parse("gemm-few-odd.bmm.bf16-int4_g128@vllm-0.24.0")
    assert key == Key("gemm", "bf16-int4_g128", "few-odd", "bmm", "vllm-0.24.0")
    assert key.kernels == "gemm-few-odd"
    assert key.dtypes == ("bf16", "int4_g128")


@pytest.mark.parametrize("text", ["", "gemm", "gemm.", ".bf16", "@lib", "gemm@lib"])
def test_a_text_without_family_or_dtype_is_no_key(text: str) -> None:
    with pytest.raises(ValueError, match="no key of coefficients"):
        Key.parse(text)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_shipped_key_is_read_and_written_as_it_stands(path: Path) -> None:
    texts = [text for table in json.loads(path.read_text(encoding="utf-8")).values() for text in table]
    assert texts
    for text in texts:
        key = Key.parse(text)
        assert str(key) == text
        assert key.family in {*FORMULAS, *SHARED}
        assert not key.variant or key.family in {*VARIANTS, "decode"}  # which is attention of one query
