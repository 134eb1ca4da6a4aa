"""Names of operators with underscores that torch.compile may fuse, as `src/ridgeline/profilers/torch_profiler/fused_names.py`.

    python benchmarks/fused_names.py

Needs torch. The operators are those that its compiler lowers or decomposes: `torch._inductor.lowering.lowerings`,
`torch._inductor.decomposition.decompositions` and `torch._decomp.core_aten_decompositions()`. The compiler makes operators
that write to their arguments into ones that do not, so those are left out.
"""

from __future__ import annotations

from pathlib import Path

from aten_names import text

NAMESPACES = ("aten", "prims", "quantized_decomposed")  # collectives and packing of weights are no generated kernels
TARGET = Path(__file__).parents[1] / "src" / "ridgeline" / "profilers" / "torch_profiler" / "fused_names.py"
HEADER = '''"""Names with underscores among the operators that the compiler of torch {version} lowers or decomposes.

Written by benchmarks/fused_names.py. Do not edit.
"""

from __future__ import annotations
'''


def names() -> set[str]:
    from torch._decomp import core_aten_decompositions
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings
    from torch._ops import OpOverload, OpOverloadPacket

    operators = [*lowerings, *decompositions, *core_aten_decompositions()]
    packets = [item.overloadpacket if isinstance(item, OpOverload) else item for item in operators]
    listed = {
        item.__name__
        for item in packets
        if isinstance(item, OpOverloadPacket) and item._qualified_op_name.partition("::")[0] in NAMESPACES
    }
    return {name for name in listed if "_" in name and not name.startswith("__") and not name.endswith("_")}


def main() -> None:
    import torch

    found, version = names(), torch.__version__.partition("+")[0]
    TARGET.write_text(HEADER.format(version=version) + text("FUSED_NAMES", list(found)), encoding="utf-8")
    print(f"{len(found)} names of torch {version}")


if __name__ == "__main__":
    main()
