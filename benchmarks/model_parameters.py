"""Parameters of every known model against the tensors that `transformers` allocates for the same configuration, at full depth.

    python benchmarks/model_parameters.py [NAME ...]

Modules are built on the meta device; nothing is downloaded. Prints a row per model, and those that differ at the end.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from ridgeline.programs.models.architecture import Architecture
from ridgeline.programs.models.load import architecture, entries, known
from ridgeline.programs.models.parameters import parameters

# Families whose code is in their repositories only, by the class that has the same tensors.
SAME_TENSORS = {"internlm2": "llama", "baichuan": "llama", "kimi_k2": "deepseek_v3"}


def allocated(config: dict[str, Any], model: Architecture) -> int:
    """Values in the parameters of a module, and in the buffers that checkpoints hold as learned vectors of routers."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers.initialization import no_init_weights

    fields = {key: value for key, value in config.items() if key not in ("quantization_config", "torch_dtype")}
    model_type = fields.pop("model_type")
    settings = AutoConfig.for_model(SAME_TENSORS.get(model_type, model_type), **fields)
    with torch.device("meta"), no_init_weights():
        encoder = AutoModelForMaskedLM if model.head else AutoModel
        module = (AutoModelForCausalLM if model.causal else encoder).from_config(settings)
    module.tie_weights()
    buffers = (value for key, value in module.named_buffers() if key.endswith("e_score_correction_bias"))
    return sum(value.numel() for value in (*module.parameters(), *buffers))


def main() -> None:
    warnings.filterwarnings("ignore")
    different = []
    for name in sys.argv[1:] or known():
        began = time.perf_counter()
        model = architecture(name)
        ours = parameters(model)
        theirs = allocated(entries()[name].config, model)
        if ours.total != theirs:
            different.append(name)
        print(
            f"{name:24} {ours.total:>17,} {theirs:>17,}  active {ours.active / 1e9:8.2f} B  {time.perf_counter() - began:.1f} s",
            flush=True,
        )
    print(f"{len(different)} differ: {', '.join(different)}" if different else "all equal")


if __name__ == "__main__":
    main()
