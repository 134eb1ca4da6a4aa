"""Blocks of a Llama-style decoder: prefill of a prompt, then decoding token by token with a KV cache."""

import argparse

import torch
from torch import nn
from torch.nn import functional


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * y.to(x.dtype)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, kv_heads * self.size, bias=False)
        self.v = nn.Linear(width, kv_heads * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.keys = self.values = torch.empty(0)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, at: int) -> torch.Tensor:
        batch, tokens, width = x.shape
        y = self.norm1(x)
        q = self.q(y).view(batch, tokens, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(y).view(batch, tokens, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        self.keys[:, :, at : at + tokens] = k
        self.values[:, :, at : at + tokens] = v
        keys, values = self.keys[:, :, : at + tokens], self.values[:, :, : at + tokens]
        y = functional.scaled_dot_product_attention(q, keys, values, is_causal=tokens > 1, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(batch, tokens, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, vocab: int, width: int, heads: int, kv_heads: int, inner: int, depth: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, inner) for _ in range(depth))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        size = width // heads
        angle = torch.outer(torch.arange(length), 5e5 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def start(self, batch: int, length: int) -> None:
        for block in self.blocks:
            shape = batch, block.kv_heads, length, block.size
            block.keys, block.values = (self.head.weight.new_zeros(shape) for _ in range(2))

    def forward(self, ids: torch.Tensor, at: int) -> torch.Tensor:
        x = self.tokens(ids)
        cos, sin = self.cos[at : at + ids.shape[1]], self.sin[at : at + ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin, at)
        return self.head(self.norm(x[:, -1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prefill", "decode"], nargs="?", default="prefill")
    parser.add_argument("--small", action="store_true", help="a model for a laptop")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--graph", action="store_true", help="decode by replaying a CUDA graph")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    prompt = 64 if args.small else args.prompt
    length = prompt + args.steps + 1
    sizes = (1000, 128, 4, 2, 352, 2) if args.small else (128256, 4096, 32, 8, 14336, args.depth)
    with torch.device(device):
        model = Decoder(*sizes, length).to(dtype).eval()
    run = torch.compile(model) if args.compile else model
    ids = torch.randint(sizes[0], (args.batch, prompt), device=device)
    model.start(args.batch, length)
    with torch.inference_mode():
        if args.what == "prefill":
            for _ in range(args.steps):
                logits = run(ids, 0)
        elif args.graph:
            token = ids[:, :1].clone()
            run(token, prompt)  # libraries allocate their workspaces
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                logits = run(token, prompt)
            for _ in range(args.steps):
                graph.replay()
        else:
            model(ids, 0)
            token = ids[:, :1]
            for step in range(args.steps):
                logits = run(token, prompt + step)
                token = logits[:, -1].argmax(-1, keepdim=True)
    print(f"largest logit {logits.max().item():.3f}")


if __name__ == "__main__":
    main()
