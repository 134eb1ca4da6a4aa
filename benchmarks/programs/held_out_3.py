"""A third set of programs that no part of the predictor was fitted to or looked at; predicted before they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from held_out import _config, _decode, _model, _prefill
from models import BF16, Built, _classified, _images, _labels, _tokens, inference, resnet, training
from torch import nn

FP16 = torch.float16
functional = nn.functional

QWEN2 = {
    "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
LLAMA_3B = {
    "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 24, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 128256, "tie_word_embeddings": True, "rope_theta": 500000.0, "max_position_embeddings": 131072,
}  # fmt: skip
MISTRAL = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32768, "sliding_window": None,
}  # fmt: skip


# -- models of `transformers` ------------------------------------------------------------------------------------------


def _accumulated(batch: int, length: int, parts: int) -> Callable[[str], Built]:
    """Qwen2-0.5B: gradients of several batches are summed, their norm is clipped, then comes one step of AdamW."""

    def built(device: str) -> Built:
        model = _model("Qwen2ForCausalLM", _config("Qwen2Config", **QWEN2), device, torch.float32).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        def step(*tokens: torch.Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            for ids in tokens:
                with torch.autocast("cuda", BF16):
                    loss = model(input_ids=ids, labels=ids, use_cache=False).loss / parts
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

        return step, tuple(_tokens(batch, length, QWEN2["vocab_size"], device) for _ in range(parts))

    return built


def _opt_train(batch: int, length: int) -> Callable[[str], Built]:
    """OPT-125M, all in bf16; its configuration is the default one."""

    def built(device: str) -> Built:
        model = _model("OPTForCausalLM", _config("OPTConfig", dropout=0.0), device, BF16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        loss = lambda net, ids: net(input_ids=ids, labels=ids, use_cache=False).loss  # noqa: E731
        return training(model, loss, optimizer, False, _tokens(batch, length, model.config.vocab_size, device))

    return built


def _roberta(batch: int, length: int) -> Callable[[str], Built]:
    """RoBERTa-base with a head for classes, in fp16."""

    def built(device: str) -> Built:
        config = _config("RobertaConfig", vocab_size=50265, max_position_embeddings=514, num_labels=3)
        model = _model("RobertaForSequenceClassification", config, device, FP16)
        return inference(model, _tokens(batch, length, config.vocab_size, device))

    return built


def _t5_encoder(batch: int, length: int) -> Callable[[str], Built]:
    """The encoder of T5-large."""

    def built(device: str) -> Built:
        config = _config("T5Config", d_model=1024, d_ff=4096, num_layers=24, num_heads=16)
        return inference(
            _model("T5EncoderModel", config, device, BF16), _tokens(batch, length, config.vocab_size, device)
        )

    return built


# -- models in plain PyTorch -------------------------------------------------------------------------------------------


def _resnet101_train(batch: int) -> Callable[[str], Built]:
    """SGD with momentum, images in channels-last layout."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = resnet((3, 4, 23, 3)).to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)
        x = _images(batch, device).to(memory_format=torch.channels_last)
        return training(model, _classified, optimizer, True, x, _labels(batch, 1000, device))

    return built


class ConvNextBlock(nn.Module):
    """Liu et al., 2022: a depthwise filter of 7 x 7, then a perceptron over channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.filter(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(functional.gelu(self.up(y)))).permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext(widths: tuple[int, ...], depths: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for place, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if place:
            layers += [ChannelNorm(widths[place - 1]), nn.Conv2d(widths[place - 1], width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(depth)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 1000)
    )


def _convnext_train(batch: int) -> Callable[[str], Built]:
    """ConvNeXt-S."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = convnext((96, 192, 384, 768), (3, 3, 27, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
        return training(model, _classified, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


class WindowAttention(nn.Module):
    """Liu et al., 2021: attention within windows of 7 x 7 pixels, every second block with shifted ones; a bias per distance."""

    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.heads, self.side, self.shift = heads, 7, shift if size > 7 else 0
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, self.side**2, self.side**2))
        windows = (size // self.side) ** 2
        self.register_buffer("mask", torch.zeros(windows, 1, self.side**2, self.side**2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        grid = (batch, height // self.side, self.side, width // self.side, self.side, channels)
        tokens = x.view(grid).transpose(2, 3).reshape(-1, self.side**2, channels)
        parts = self.qkv(tokens).view(tokens.shape[0], self.side**2, 3, self.heads, channels // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.bias
        if self.shift:
            windows = self.mask.shape[0]
            scores = (scores.view(-1, windows, *scores.shape[1:]) + self.mask).view(scores.shape)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(tokens.shape))
        y = y.view(batch, grid[1], grid[3], self.side, self.side, channels).transpose(2, 3).reshape(x.shape)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


class SwinBlock(nn.Module):
    def __init__(self, width: int, heads: int, size: int, shift: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads, size, shift)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.perceptron(self.after(x))


class Merge(nn.Module):
    """Four neighbours become one pixel with twice the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        corners = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        return self.reduce(self.norm(torch.cat(corners, -1)))


class Swin(nn.Module):
    def __init__(self, width: int, depths: tuple[int, ...], heads: int) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        layers: list[nn.Module] = []
        for stage, depth in enumerate(depths):
            layers += [Merge(width << (stage - 1))] if stage else []
            layers += [SwinBlock(width << stage, heads << stage, 56 >> stage, 3 * (i % 2)) for i in range(depth)]
        self.layers = nn.Sequential(*layers)
        self.norm, self.head = (
            nn.LayerNorm(width << (len(depths) - 1)),
            nn.Linear(width << (len(depths) - 1), 1000),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(self.first(self.patches(x).permute(0, 2, 3, 1)))
        return self.head(self.norm(y).mean((1, 2)))


def _swin(batch: int) -> Callable[[str], Built]:
    """Swin-S in bf16, inference."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = Swin(96, (2, 2, 18, 2), 3).to(BF16)
        return inference(model, _images(batch, device, BF16))

    return built


class DiTBlock(nn.Module):
    """Peebles and Xie, 2023: a transformer block whose norms are shifted, scaled and gated by what it is conditioned on."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        shift, scale, gate, shift_2, scale_2, gate_2 = self.modulation(condition)[:, None].chunk(6, -1)
        y = self.before(x) * (1 + scale) + shift
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + gate * self.out(y)
        y = self.after(x) * (1 + scale_2) + shift_2
        return x + gate_2 * self.down(functional.gelu(self.up(y), approximate="tanh"))


class DiT(nn.Module):
    """Latent images of 32 x 32 in patches of 2 x 2."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patches, self.classes = nn.Conv2d(4, width, 2, 2), nn.Embedding(1001, width)
        self.time = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.places = nn.Parameter(torch.zeros(1, 256, width))
        self.blocks = nn.ModuleList(DiTBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.modulation, self.out = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width)), nn.Linear(width, 2 * 2 * 8)

    def forward(self, x: torch.Tensor, time: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        angles = time[:, None].float() * torch.exp(-9.21 * torch.arange(128, device=x.device) / 128)
        condition = self.time(torch.cat((angles.cos(), angles.sin()), -1).to(x.dtype)) + self.classes(label)
        y = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            y = block(y, condition)
        shift, scale = self.modulation(condition)[:, None].chunk(2, -1)
        y = self.out(self.norm(y) * (1 + scale) + shift)
        return y.view(-1, 16, 16, 2, 2, 8).permute(0, 5, 1, 3, 2, 4).reshape(-1, 8, 32, 32)


def _dit(batch: int) -> Callable[[str], Built]:
    """DiT-L/2 in bf16: one step of denoising."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = DiT(1024, 24, 16).to(BF16)
        x = torch.randn(batch, 4, 32, 32, device=device, dtype=BF16)
        times = torch.randint(0, 1000, (batch,), device=device)
        return inference(model, x, times, torch.randint(0, 1000, (batch,), device=device))

    return built


def _double(inputs: int, outputs: int) -> nn.Module:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
    return nn.Sequential(*layers)


class Segmenter(nn.Module):
    """U-Net (Ronneberger et al., 2015) with batch norms: a class for every pixel."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(a, b) for a, b in zip((3, *widths), widths, strict=False))
        rising = widths[::-1]
        self.grow = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairwise(rising))
        self.up = nn.ModuleList(_double(2 * width, width) for width in rising[1:])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        for place, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if place else x)
            kept.append(x)
        kept.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat((kept.pop(), grow(x)), 1))
        return self.head(x)


def _segmenter_train(batch: int, side: int, classes: int = 21) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = Segmenter((64, 128, 256, 512), classes)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        x = torch.randn(batch, 3, side, side, device=device)
        return training(
            model, _classified, optimizer, True, x, torch.randint(0, classes, (batch, side, side), device=device)
        )

    return built


class Tagger(nn.Module):
    """Layers of LSTM in both directions, a class for every token."""

    def __init__(self, vocabulary: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(tokens))[0])


def _tagger(batch: int, length: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = Tagger(30000, 512, 3, 17).to(FP16)
        return inference(model, _tokens(batch, length, 30000, device))

    return built


CAUSAL: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
CASES: dict[str, Callable[[str], Built]] = {
    "resnet101 train": _resnet101_train(48),
    "convnext-s train": _convnext_train(32),
    "swin-s inference": _swin(48),
    "qwen2-0.5b accumulate": _accumulated(4, 512, 2),
    "qwen2-0.5b decode": _decode("Qwen2ForCausalLM", "Qwen2Config", QWEN2, 64, 768),
    "llama-3b prefill": _prefill("LlamaForCausalLM", "LlamaConfig", LLAMA_3B, 2, 1536, **CAUSAL),
    "llama-3b decode": _decode("LlamaForCausalLM", "LlamaConfig", LLAMA_3B, 24, 1536),
    "mistral-7b prefill": _prefill("MistralForCausalLM", "MistralConfig", MISTRAL, 1, 3072, **CAUSAL),
    "opt-125m train": _opt_train(12, 768),
    "roberta-base inference": _roberta(64, 192),
    "t5-large encoder": _t5_encoder(16, 320),
    "dit-l inference": _dit(24),
    "segmenter train": _segmenter_train(8, 256),
    "lstm tagger inference": _tagger(96, 160),
}
