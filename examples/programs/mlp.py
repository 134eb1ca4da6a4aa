"""A multi-layer perceptron: the forward pass, and a training step with SGD."""

import torch
from torch import nn


def perceptron(width: int = 4096, layers: int = 4, classes: int = 1000) -> nn.Sequential:
    blocks = [block for _ in range(layers) for block in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*blocks, nn.Linear(width, classes))


def forward():
    return perceptron().to(torch.bfloat16), (torch.randn(256, 4096, dtype=torch.bfloat16),)


def training():
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, (torch.randn(256, 4096), torch.randint(0, 1000, (256,)))
