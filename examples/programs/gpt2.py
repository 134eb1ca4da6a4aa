"""GPT-2 (124 M parameters) from its `transformers` configuration, on the meta device: prefill and a training step."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def model() -> GPT2LMHeadModel:
    with torch.device("meta"):
        return GPT2LMHeadModel(GPT2Config())


def prefill():
    return torch.no_grad()(model().to(torch.bfloat16).eval()), (torch.zeros(8, 1024, dtype=torch.long),)


def training():
    net = model().train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)

    def step(tokens: torch.Tensor) -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = net(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    return step, (torch.zeros(8, 1024, dtype=torch.long),)
