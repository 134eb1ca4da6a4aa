"""A second set of programs that no part of the predictor was fitted to or looked at; predicted before they were recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from held_out import _config, _decode, _model, _prefill, _train
from models import BF16, Built, _classified, _images, _labels, _tokens, inference, training
from torch import nn

FP16 = torch.float16
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "programs"

QWEN3 = {
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
    "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
MOE = {  # a tenth of Mixtral-8x7B: half its width, half its layers
    "hidden_size": 2048, "intermediate_size": 7168, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 4,
    "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000, "experts_implementation": "grouped_mm",
}  # fmt: skip


# -- models of `transformers` ------------------------------------------------------------------------------------------


def _t5_train(batch: int, source: int, target: int) -> Callable[[str], Built]:
    """T5-base, which `google-t5/t5-base` configures with a feed-forward layer of 3072."""

    def built(device: str) -> Built:
        config = _config("T5Config", d_model=768, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0)
        model = _model("T5ForConditionalGeneration", config, device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        inputs = (_tokens(batch, length, config.vocab_size, device) for length in (source, target))
        loss = lambda net, ids, labels: net(input_ids=ids, labels=labels).loss  # noqa: E731
        return training(model, loss, optimizer, True, *inputs)

    return built


def _swin_train(batch: int) -> Callable[[str], Built]:
    """Swin-T; its configuration is the default one."""

    def built(device: str) -> Built:
        model = _model("SwinForImageClassification", _config("SwinConfig", num_labels=1000), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
        loss = lambda net, x, y: nn.functional.cross_entropy(net(x).logits, y)  # noqa: E731
        return training(model, loss, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


def _efficientnet(batch: int) -> Callable[[str], Built]:
    """EfficientNet-B0: the stem and head of width 1, and depth 1."""

    def built(device: str) -> Built:
        config = _config(
            "EfficientNetConfig",
            image_size=224,
            width_coefficient=1.0,
            depth_coefficient=1.0,
            hidden_dim=1280,
            num_labels=1000,
        )
        model = _model("EfficientNetForImageClassification", config, device, FP16, "eager")
        return inference(model, _images(batch, device, FP16))

    return built


def _whisper_encoder(batch: int) -> Callable[[str], Built]:
    """The encoder of Whisper-tiny on 30 s of sound: 80 bands, 3000 frames."""

    def built(device: str) -> Built:
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        config = _config("WhisperConfig")  # the default one is that of Whisper-tiny
        model = _model(WhisperEncoder, config, device, FP16)
        return inference(model, torch.randn(batch, config.num_mel_bins, 3000, device=device, dtype=FP16))

    return built


def _clip(batch: int) -> Callable[[str], Built]:
    """CLIP ViT-B/32 on pairs of an image and a text of 77 tokens; its configuration is the default one."""

    def built(device: str) -> Built:
        model = _model("CLIPModel", _config("CLIPConfig"), device, FP16).eval()

        @torch.no_grad()
        def step(ids: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
            return model(input_ids=ids, pixel_values=images).logits_per_image

        return step, (_tokens(batch, 77, 49408, device), _images(batch, device, FP16))

    return built


# -- models in plain PyTorch -------------------------------------------------------------------------------------------


class InvertedResidual(nn.Module):
    """The block of MobileNetV2 (Sandler et al., 2018): widen, filter every channel by itself, narrow."""

    def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
        super().__init__()
        width = inputs * factor
        layers: list[nn.Module] = []
        if factor != 1:
            layers += [nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU6(inplace=True)]
        layers += [
            nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(inplace=True),
        ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


def mobilenet_v2(classes: int = 1000) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(inplace=True)]
    inputs = 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, outputs, blocks, stride in stages:
        for place in range(blocks):
            layers.append(InvertedResidual(inputs, outputs, stride if place == 0 else 1, factor))
            inputs = outputs
    layers += [nn.Conv2d(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(inplace=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, classes))


def _mobilenet_train(batch: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = mobilenet_v2()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=4e-5)
        return training(model, _classified, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


def _unet_train(batch: int) -> Callable[[str], Built]:
    """One step of diffusion training: the noise of latent images of 64 x 64 is predicted, all in bf16."""

    def built(device: str) -> Built:
        sys.path.insert(0, str(EXAMPLES))
        from unet import UNet

        with torch.device(device):
            model = UNet(width=256).to(BF16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        x, noise = (torch.randn(batch, 4, 64, 64, device=device, dtype=BF16) for _ in range(2))
        loss = lambda net, x, t, noise: nn.functional.mse_loss(net(x, t), noise)  # noqa: E731
        return training(model, loss, optimizer, False, x, torch.rand(batch, device=device), noise)

    return built


class LanguageModel(nn.Module):
    """Embedding, recurrent layers, a product with the vocabulary (Zaremba et al., 2014, with larger layers)."""

    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding, self.dropout = nn.Embedding(vocabulary, width), nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.5, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(self.dropout(self.embedding(tokens)))
        return self.out(self.dropout(y))


def _lstm_train(batch: int, length: int, vocabulary: int = 33278) -> Callable[[str], Built]:
    """The vocabulary is that of WikiText-2; all in fp32, as its example trains it."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = LanguageModel(vocabulary, 1024, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

        def loss(net: nn.Module, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(net(tokens).flatten(0, 1), following.flatten())

        inputs = (_tokens(batch, length, vocabulary, device) for _ in range(2))
        return training(model, loss, optimizer, False, *inputs)

    return built


class Recommender(nn.Module):
    """DLRM (Naumov et al., 2019): numbers through a small network, categories through tables, products of all pairs."""

    def __init__(self, tables: int, rows: int, width: int, dense: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = _perceptron(dense, 512, 256, width)
        pairs = (tables + 1) * tables // 2
        self.top = _perceptron(width + pairs, 1024, 1024, 512, 256, 1)
        below = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("places", below[0] * (tables + 1) + below[1], persistent=False)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        x = self.bottom(numbers)
        looked_up = [table(ids, offsets) for table, ids in zip(self.tables, categories, strict=True)]
        every = torch.stack((x, *looked_up), 1)
        products = torch.bmm(every, every.transpose(1, 2)).flatten(1)
        return self.top(torch.cat((x, products.index_select(1, self.places)), 1)).squeeze(1)


def _perceptron(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _dlrm(batch: int, tables: int = 26, rows: int = 1_000_000, bag: int = 4) -> Callable[[str], Built]:
    """Inference over tables of the number of Criteo's categories, four ids of each a sample."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = Recommender(tables, rows, 64, 13)
        categories = torch.randint(0, rows, (tables, batch * bag), device=device)
        offsets = torch.arange(0, batch * bag, bag, device=device)
        return inference(model, torch.randn(batch, 13, device=device), categories, offsets)

    return built


CAUSAL: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
CASES: dict[str, Callable[[str], Built]] = {
    "t5-base train": _t5_train(16, 512, 128),
    "swin-t train": _swin_train(64),
    "efficientnet-b0 inference": _efficientnet(128),
    "mobilenet-v2 train": _mobilenet_train(128),
    "unet train": _unet_train(8),
    "qwen3-0.6b prefill": _prefill("Qwen3ForCausalLM", "Qwen3Config", QWEN3, 4, 2048, **CAUSAL),
    "qwen3-0.6b decode": _decode("Qwen3ForCausalLM", "Qwen3Config", QWEN3, 32, 1024),
    "qwen3-0.6b train": _train("Qwen3ForCausalLM", "Qwen3Config", QWEN3, 2, 1024),
    "moe prefill": _prefill("MixtralForCausalLM", "MixtralConfig", MOE, 2, 2048, **CAUSAL),
    "whisper-tiny encoder": _whisper_encoder(16),
    "clip inference": _clip(256),
    "lstm train": _lstm_train(64, 128),
    "dlrm inference": _dlrm(8192),
}
