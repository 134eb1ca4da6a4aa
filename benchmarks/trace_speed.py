"""How long tracing takes and how much memory: a Llama of 70B parameters at sequence 8192, and a training step of GPT-2.

    python benchmarks/trace_speed.py

Each runs in a process of its own, which prints the seconds of the trace (models are built before, on the meta device), its
CPU time, and the largest resident memory. Limits: 20 s and 2 GB for Llama, 10 s for GPT-2, on two cores.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any


def llama_70b() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8,
        vocab_size=128256, max_position_embeddings=8192,
    )  # fmt: skip
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    return torch.no_grad()(model), (torch.empty(1, 8192, dtype=torch.long, device="meta"),), {"use_cache": False}


def gpt2_training() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config())
    optimizer = torch.optim.AdamW(model.parameters())

    def step(tokens: Any) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()

    return step, (torch.empty(8, 1024, dtype=torch.long, device="meta"),), {}


CASES = {"llama-70b forward, 8192 tokens": llama_70b, "gpt2 training step, 8 x 1024 tokens": gpt2_training}


def measure(name: str) -> None:
    import ridgeline as rl

    target, args, kwargs = CASES[name]()
    began, cpu = time.perf_counter(), time.process_time()
    trace = rl.trace(target, *args, kwargs=kwargs)
    seconds, busy = time.perf_counter() - began, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"{name}: {seconds:.1f} s ({busy:.1f} s of CPU), {memory / 1e9:.2f} GB resident, {len(trace):,} calls, "
        f"{len(trace.ops):,} distinct, {trace.flops / 1e12:.1f} TFLOP"
    )


def main() -> None:
    for name in CASES:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
