"""The tables people ask for by name: computed from the ops and a machine, never typed in."""

from __future__ import annotations

from ...prediction import locality, studies
from ..named import Named, by_name
from ..table import Table
from .advice import flow_table, moves_table
from .catalog import peaks_table
from .studies import kernel_table, production_table, regimes_table, tiling_table

TABLES: dict[str, Named[Table]] = by_name(
    "table",
    [
        Named("common", "vector add to GEMM: flops, bytes, intensity, verdict", kernel_table, studies.common_ops),
        Named("blas", "BLAS levels 1 to 3", kernel_table, studies.blas_ops),
        Named("typical", "eight operations of deep learning with their regime", kernel_table, studies.typical_ops),
        Named("batches", "a linear layer against batch size", kernel_table, studies.batches),
        Named("peaks", "every precision: stated, derived, measured peak, ratio to fp32, ridge", peaks_table),
        Named("tiling", "tile sizes: working set, level, intensity", tiling_table, locality.tiling),
        Named("regimes", "the three regimes and their time formulas", regimes_table),
        Named("kernels", "production kernels and the share of the ceiling they reach", production_table, studies.production_kernels),
        Named("moves", "what can be done about a gap: direction, when, limit", moves_table),
        Named("flow", "the decision flow: measure, ask, move", flow_table),
    ],
)  # fmt: skip
