"""A sixth set of programs that no part of the predictor was fitted to or looked at: what people run most, in other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from held_out import _config, _decode, _model, _prefill
from held_out_4 import CAUSAL, FP16, in_tf32
from models import BF16, Built, _images, _labels, _tokens, inference, training
from torch import nn

functional = nn.functional
LAST = torch.channels_last

PHI3 = {
    "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "vocab_size": 32064, "pad_token_id": 0,
}  # fmt: skip
LLAMA_1B = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True, "max_position_embeddings": 131072,
}  # fmt: skip
SMOLLM = {
    "hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 15, "num_key_value_heads": 5,
    "vocab_size": 49152, "tie_word_embeddings": True,
}  # fmt: skip
PYTHIA = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50304,
}  # fmt: skip
VIT_L = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "num_labels": 1000,
}  # fmt: skip


# -- images ------------------------------------------------------------------------------------------------------------


def _resnet_train(batch: int) -> Callable[[str], Built]:
    """ResNet-50 of `transformers`, images stored channel by channel, mixed precision, AdamW as it is by default."""

    def built(device: str) -> Built:
        config = _config("ResNetConfig", num_labels=1000)
        model = _model("ResNetForImageClassification", config, device, torch.float32, "eager")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loss = lambda net, x, y: functional.cross_entropy(net(x).logits, y)  # noqa: E731
        return training(model, loss, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


def vgg16() -> nn.Module:
    """Simonyan and Zisserman, 2014."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000))


def _vgg(batch: int) -> Callable[[str], Built]:
    """VGG-16 in fp16 on channels-last images."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = vgg16().to(FP16).to(memory_format=LAST)
        return inference(model, _images(batch, device, FP16).to(memory_format=LAST))

    return built


def _mobilenet(batch: int) -> Callable[[str], Built]:
    """MobileNetV2 of `transformers` in bf16 on channels-last images."""

    def built(device: str) -> Built:
        config = _config("MobileNetV2Config", num_labels=1000, image_size=224)
        model = _model("MobileNetV2ForImageClassification", config, device, BF16, "eager").to(memory_format=LAST)
        return inference(model, _images(batch, device, BF16).to(memory_format=LAST))

    return built


def _vit_large(batch: int) -> Callable[[str], Built]:
    """ViT-L/16 in fp16."""

    def built(device: str) -> Built:
        model = _model("ViTForImageClassification", _config("ViTConfig", **VIT_L), device, FP16)
        return inference(model, _images(batch, device, FP16))

    return built


def _yolos(batch: int) -> Callable[[str], Built]:
    """YOLOS-small: boxes from a vision transformer over large images, in bf16."""

    def built(device: str) -> Built:
        config = _config(
            "YolosConfig",
            hidden_size=384,
            num_attention_heads=6,
            intermediate_size=1536,
            image_size=[512, 864],
            use_mid_position_embeddings=False,
        )
        model = _model("YolosForObjectDetection", config, device, BF16)
        return inference(model, torch.randn(batch, 3, 512, 864, device=device, dtype=BF16))

    return built


# -- text --------------------------------------------------------------------------------------------------------------


def _distilbert_train(batch: int, length: int) -> Callable[[str], Built]:
    """DistilBERT with a head for classes, mixed precision."""

    def built(device: str) -> Built:
        model = _model("DistilBertForSequenceClassification", _config("DistilBertConfig"), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
        loss = lambda net, ids, y: net(input_ids=ids, labels=y).loss  # noqa: E731
        tokens = _tokens(batch, length, model.config.vocab_size, device)
        return training(model, loss, optimizer, True, tokens, _labels(batch, 2, device))

    return built


def _electra_train(batch: int, length: int) -> Callable[[str], Built]:
    """ELECTRA-base as a discriminator in fp32, products in tf32."""

    def built(device: str) -> Built:
        values = {"embedding_size": 768, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
        model = _model("ElectraForPreTraining", _config("ElectraConfig", **values), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        loss = lambda net, ids, y: net(input_ids=ids, labels=y).loss  # noqa: E731
        tokens = _tokens(batch, length, model.config.vocab_size, device)
        replaced = torch.randint(0, 2, (batch, length), device=device)
        return in_tf32(training(model, loss, optimizer, False, tokens, replaced))

    return built


def _pythia_train(batch: int, length: int) -> Callable[[str], Built]:
    """Pythia-410M, mixed precision, AdamW as it is by default."""

    def built(device: str) -> Built:
        model = _model("GPTNeoXForCausalLM", _config("GPTNeoXConfig", **PYTHIA), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        loss = lambda net, ids: net(input_ids=ids, labels=ids, use_cache=False).loss  # noqa: E731
        return training(model, loss, optimizer, True, _tokens(batch, length, model.config.vocab_size, device))

    return built


def _clip_train(batch: int) -> Callable[[str], Built]:
    """CLIP ViT-B/32 on pairs of an image and a text, with its contrastive loss, mixed precision."""

    def built(device: str) -> Built:
        model = _model("CLIPModel", _config("CLIPConfig"), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def loss(net: nn.Module, images: torch.Tensor, ids: torch.Tensor) -> Any:
            return net(input_ids=ids, pixel_values=images, return_loss=True).loss

        return training(model, loss, optimizer, True, _images(batch, device), _tokens(batch, 77, 49406, device))

    return built


CASES: dict[str, Callable[[str], Built]] = {
    "resnet50 nchw train": _resnet_train(48),
    "vgg16 inference": _vgg(64),
    "mobilenet-v2 inference": _mobilenet(96),
    "vit-l inference": _vit_large(24),
    "yolos-s inference": _yolos(8),
    "distilbert train": _distilbert_train(64, 128),
    "electra train": _electra_train(16, 256),
    "pythia-410m train": _pythia_train(6, 1024),
    "clip train": _clip_train(128),
    "phi-3-mini prefill": _prefill("Phi3ForCausalLM", "Phi3Config", PHI3, 1, 2560, **CAUSAL),
    "phi-3-mini decode": _decode("Phi3ForCausalLM", "Phi3Config", PHI3, 12, 1280),
    "llama-1b long decode": _decode("LlamaForCausalLM", "LlamaConfig", LLAMA_1B, 2, 12000),
    "smollm-360m decode": _decode("LlamaForCausalLM", "LlamaConfig", SMOLLM, 96, 640),
    "smollm-360m prefill": _prefill("LlamaForCausalLM", "LlamaConfig", SMOLLM, 8, 1024, **CAUSAL),
}
