"""Train a vision transformer on random images with AdamW, in bf16 autocast where there is a GPU."""

import argparse

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, width: int, heads: int, depth: int, image: int, patch: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a model for a laptop")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--fused", action="store_true", help="the fused AdamW")
    parser.add_argument("--loop", action="store_true", help="the AdamW that loops over parameters")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    width, heads, depth, image, patch, classes = (64, 2, 2, 32, 8, 10) if args.small else (768, 12, 12, 224, 16, 1000)
    model: nn.Module = ViT(width, heads, depth, image, patch, classes).to(device)
    choice = {"fused": True} if args.fused else {"foreach": False} if args.loop else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, **choice)
    run = torch.compile(model) if args.compile else model
    batch = 4 if args.small else args.batch
    images = torch.randn(batch, 3, image, image, device=device)
    labels = torch.randint(classes, (batch,), device=device)
    loss = torch.zeros(())
    for _ in range(args.steps):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = functional.cross_entropy(run(images), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
