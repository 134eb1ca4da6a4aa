"""A training step as people write it: autocast to fp16 with a gradient scaler, clipping, AdamW, activation checkpointing."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, width: int = 1024, layers: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(32000, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, 32000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


def step():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Encoder().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler(device)

    def train(tokens: torch.Tensor, targets: torch.Tensor) -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    tokens = torch.randint(0, 32000, (8, 512), device=device)
    return train, (tokens, tokens)
