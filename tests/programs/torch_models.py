"""Small models in plain PyTorch with the operators of well-known ones, each as a training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

F = nn.functional


class Bottleneck(nn.Module):
    """A block of ResNet-50: 1x1, 3x3, 1x1 convolutions with batch norms around a residual."""

    def __init__(self, c_in: int, width: int, stride: int = 1) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(c_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        plain = c_in == out and stride == 1
        self.skip = (
            nn.Identity() if plain else nn.Sequential(nn.Conv2d(c_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def resnet() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        Bottleneck(16, 8), Bottleneck(32, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([1, 2])
    return model, lambda net: F.cross_entropy(net(x), y, label_smoothing=0.1)


class Attention(nn.Module):
    """Multi-head attention with fewer heads for keys and values, and rotated positions, where asked for."""

    def __init__(
        self, width: int, heads: int, kv_heads: int, causal: bool, rotary: bool = False, fused: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.causal, self.rotary, self.fused = heads, kv_heads, causal, rotary, fused
        self.head = width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.head, bias=not rotary)
        self.out = nn.Linear(width, width, bias=not rotary)

    def forward(self, x: Any, mask: Any = None) -> Any:
        b, s, _ = x.shape
        sizes = [self.heads * self.head, self.kv_heads * self.head, self.kv_heads * self.head]
        q, k, v = (part.view(b, s, -1, self.head).transpose(1, 2) for part in self.qkv(x).split(sizes, -1))
        if self.rotary:
            q, k = rotated(q), rotated(k)
        if self.fused:
            y = F.scaled_dot_product_attention(
                q, k, v, mask, is_causal=self.causal, enable_gqa=self.kv_heads != self.heads
            )
        else:
            scores = q @ k.transpose(-2, -1) / self.head**0.5
            hidden = torch.ones(s, s, dtype=torch.bool).triu(1)
            y = F.dropout(scores.masked_fill(hidden, float("-inf")).softmax(-1), 0.1) @ v
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


def rotated(x: Any) -> Any:
    """Rotary positions: halves of a head turned by angles that grow with the place."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2]).float(), 1e4 ** (-torch.arange(half).float() / half))
    cos, sin = angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype)
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Block(nn.Module):
    """A transformer layer: norm, attention, norm, feed-forward, either before or after the residual."""

    def __init__(
        self, attention: nn.Module, feed: nn.Module, norm: Callable[[], nn.Module], before: bool = True
    ) -> None:
        super().__init__()
        self.attention, self.feed, self.first, self.second, self.before = attention, feed, norm(), norm(), before

    def forward(self, x: Any, *rest: Any) -> Any:
        if self.before:
            x = x + self.attention(self.first(x), *rest)
            return x + self.feed(self.second(x))
        x = self.first(x + self.attention(x, *rest))
        return self.second(x + self.feed(x))


def feed(width: int, activation: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 4 * width), activation, nn.Linear(4 * width, width), nn.Dropout(0.1))


class Gated(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Mixtral's layer: each token goes to the two experts of the largest probability."""

    def __init__(self, width: int, inner: int, count: int) -> None:
        super().__init__()
        self.router, self.experts = (
            nn.Linear(width, count, bias=False),
            nn.ModuleList(Gated(width, inner) for _ in range(count)),
        )

    def forward(self, x: Any) -> Any:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.router(tokens), -1, dtype=torch.float), 2, -1)
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        result = torch.zeros_like(tokens)
        taken = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        for number, expert in enumerate(self.experts):
            place, token = torch.where(taken[number])
            result.index_add_(
                0, token, expert(tokens[None, token].reshape(-1, x.shape[-1])) * weights[token, place, None]
            )
        return result.view_as(x)


class Language(nn.Module):
    """Embedded tokens, positions where asked for, layers, and a head with the embedding's weights."""

    def __init__(self, layers: list[nn.Module], norm: nn.Module, positions: int, width: int, tied: bool = True) -> None:
        super().__init__()
        self.tokens, self.layers, self.norm = nn.Embedding(50, width), nn.ModuleList(layers), norm
        self.positions = nn.Embedding(positions, width) if positions else None
        self.head = nn.Linear(width, 50, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids: Any, *rest: Any) -> Any:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, *rest)
        return self.head(self.norm(x))


def next_token(model: nn.Module) -> Any:
    ids = torch.arange(24).reshape(2, 12) % 50
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


def gpt2() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    layers: list[nn.Module] = [
        Block(Attention(32, 4, 4, True, fused=fused), feed(32, nn.GELU("tanh")), lambda: nn.LayerNorm(32))
        for fused in (True, False)
    ]
    return Language(layers, nn.LayerNorm(32), 16, 32), next_token


def bert() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    layers: list[nn.Module] = [
        Block(Attention(32, 4, 4, False), feed(32, nn.GELU()), lambda: nn.LayerNorm(32), before=False)
    ]
    model = Language(layers, nn.LayerNorm(32), 16, 32, tied=False)

    def loss(net: nn.Module) -> Any:
        ids = torch.arange(24).reshape(2, 12) % 50
        mask = torch.zeros(2, 1, 1, 12).masked_fill((ids == 5)[:, None, None], -1e9).expand(2, 1, 12, 12)
        targets = torch.where(ids % 3 == 0, ids, -100)
        return F.cross_entropy(net(ids, mask).view(-1, 50), targets.view(-1))

    return model, loss


def llama() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    layers: list[nn.Module] = [Block(Attention(32, 4, 2, True, rotary=True), Gated(32, 88), lambda: nn.RMSNorm(32))]
    return Language(layers, nn.RMSNorm(32), 0, 32, tied=False), next_token


def mixtral() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    layers: list[nn.Module] = [
        Block(Attention(32, 4, 2, True, rotary=True), Experts(32, 56, 4), lambda: nn.RMSNorm(32))
    ]
    return Language(layers, nn.RMSNorm(32), 0, 32, tied=False), next_token


class Patches(nn.Module):
    """ViT: patches embedded by a strided convolution, a class token, learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.token, self.places = (
            nn.Conv2d(3, 32, 4, 4),
            nn.Parameter(torch.zeros(1, 1, 32)),
            nn.Parameter(torch.zeros(1, 17, 32)),
        )
        self.layers = nn.ModuleList([Block(Attention(32, 4, 4, False), feed(32, nn.GELU()), lambda: nn.LayerNorm(32))])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def vit() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    x, y = torch.randn(2, 3, 16, 16), torch.tensor([1, 2])
    return Patches(), lambda net: F.cross_entropy(net(x), y)


class UNet(nn.Module):
    """Down and up again with group norms, time embedding, skip connections, attention in between, as diffusion models have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.norm, self.inner, self.up = (
            nn.GroupNorm(8, 32),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ConvTranspose2d(32, 16, 2, 2),
        )
        self.time, self.attention = nn.Linear(16, 32), Attention(32, 4, 4, False)
        self.last = nn.Conv2d(48, 3, 3, padding=1)

    def forward(self, x: Any, t: Any) -> Any:
        angles = t[:, None] * torch.exp(-torch.arange(8) * 0.5)[None]
        when = self.time(torch.cat((angles.sin(), angles.cos()), -1))
        a = F.silu(self.first(x))
        b = self.down(a)
        c = self.inner(F.silu(self.norm(b))) + when[:, :, None, None]
        c = c + self.attention(c.flatten(2).transpose(1, 2)).transpose(1, 2).view_as(c)
        wide = F.interpolate(F.avg_pool2d(a, 2), scale_factor=2, mode="bilinear")
        near = F.interpolate(F.avg_pool2d(a, 2), scale_factor=2, mode="nearest")
        return self.last(torch.cat((self.up(c), wide, near), 1))


def unet() -> tuple[nn.Module, Callable[[nn.Module], Any]]:
    x, noise = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16)
    return UNet(), lambda net: F.mse_loss(net(x, torch.tensor([3.0, 7.0])), noise)


MODELS = {"resnet": resnet, "vit": vit, "gpt2": gpt2, "bert": bert, "llama": llama, "mixtral": mixtral, "unet": unet}


def step(model: nn.Module, loss: Callable[[nn.Module], Any], optimizer: Any) -> Callable[[], None]:
    """One training step: gradients cleared, loss, backward pass, clipping, update."""

    def run() -> None:
        optimizer.zero_grad()
        loss(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return run
