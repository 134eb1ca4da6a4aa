"""Key: which kernels a set of coefficients belongs to, written `family-variant.op.dtype@backend`.

gemm.bf16                       every bf16 product
gemm-few-odd.bf16               a variant of a variant of it
rows.softmax.fp32               one op of a family
gemm.fp8@vllm-0.24.0            the kernels of one library
gemm.bf16-int4                  bf16 arithmetic on int4 weights
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, order=True)
class Key:
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
        family, _, variant = name.partition("-")
        return cls(family, dtype, variant, op, backend)

    def __str__(self) -> str:
        name = f"{self.family}-{self.variant}" if self.variant else self.family
        parts = (name, self.op, self.dtype) if self.op else (name, self.dtype)
        return ".".join(parts) + (f"@{self.backend}" if self.backend else "")

    @property
    def base_dtype(self) -> str:
        """The dtype of the arithmetic, without that of the weights."""
        return self.dtype.partition("-")[0]

    def wider(self) -> Iterator[Key]:
        """This key, then those of ever wider variants, down to the family; at each, the op's own before any op's."""
        variant = self.variant
        while True:
            yield replace(self, variant=variant)
            if self.op:
                yield replace(self, variant=variant, op="")
            if not variant:
                return
            variant = variant.rpartition("-")[0]
