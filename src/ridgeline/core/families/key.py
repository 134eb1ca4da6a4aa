"""Key: which kernels a set of coefficients belongs to, written `family-variant.op.dtype@backend`.

gemm.bf16                       every bf16 product
gemm-few-odd.bf16               a variant of a variant of it
rows.softmax.fp32               one op of a family
gemm.fp8@vllm-0.24.0            the kernels of one library
gemm.bf16-int4                  bf16 arithmetic on int4 weights
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

RESIDENT = "resident"  # bytes of a call whose operands are in the caches already; the first part of its variant


class Key(NamedTuple):
    """A tuple, because predictions look up dozens of keys per kernel and a tuple of strings hashes quickly."""

    family: str
    dtype: str
    variant: str = ""  # dashes lead from the wider to the narrower one
    op: str = ""
    backend: str = ""

    @classmethod
    def parse(cls, text: str) -> Key:
        """What `str` wrote; ValueError where there is no dtype."""
        kernels, _, backend = text.partition("@")
        name, _, rest = kernels.partition(".")
        op, _, dtype = rest.rpartition(".")
        if not name or not dtype:
            raise ValueError(f"'{text}' is no key of coefficients; it is written family-variant.op.dtype@backend")
        return cls.of(name, dtype, op, backend)

    @classmethod
    def of(cls, kernels: str, dtype: str, op: str = "", backend: str = "") -> Key:
        """The key of kernels named `family-variant`."""
        family, _, variant = kernels.partition("-")
        return cls(family, dtype, variant, op, backend)

    @property
    def kernels(self) -> str:
        return f"{self.family}-{self.variant}" if self.variant else self.family

    def __str__(self) -> str:
        parts = (self.kernels, self.op, self.dtype) if self.op else (self.kernels, self.dtype)
        return ".".join(parts) + (f"@{self.backend}" if self.backend else "")

    @property
    def resident(self) -> bool:
        """Whether these are kernels of a CPU with their operands in its caches."""
        return self.variant.partition("-")[0] == RESIDENT

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of the arithmetic, then that of the weights where it differs."""
        return tuple(self.dtype.split("-"))

    def wider_variants(self) -> Iterator[Key]:
        """This key, then those of ever wider variants, down to the family."""
        variant = self.variant
        while variant:
            yield self._replace(variant=variant)
            variant = variant.rpartition("-")[0]
        yield self._replace(variant="")

    def wider(self, like: str = "") -> Iterator[Key]:
        """The wider variants; at each, the op's own key before that of an op built alike, and of any op."""
        for key in self.wider_variants():
            yield key
            if key.op and like:
                yield key._replace(op=like)
            if key.op:
                yield key._replace(op="")
