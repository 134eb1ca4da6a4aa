"""A seventh set of programs that no part of the predictor was fitted to or looked at: models and scripts that others would try first."""

from __future__ import annotations

from collections.abc import Callable

import torch
from held_out import LARGE, _config, _decode, _model, _prefill, _train
from held_out_4 import CAUSAL, FP16
from models import BF16, Built, _images, _labels, _tokens, inference, training
from torch import nn

functional = nn.functional
LAST = torch.channels_last

QWEN_7B = {
    "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "vocab_size": 152064,
}  # fmt: skip
TINYLLAMA = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
    "vocab_size": 32000,
}  # fmt: skip
GPT2_MEDIUM = {"n_embd": 1024, "n_layer": 24, "n_head": 16, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}


# -- images ------------------------------------------------------------------------------------------------------------


def _resnet18_train(batch: int) -> Callable[[str], Built]:
    """ResNet-18 in fp32 parameters under autocast, channels-last, SGD with momentum."""

    def built(device: str) -> Built:
        sizes = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic", "num_labels": 1000}
        config = _config("ResNetConfig", **sizes)
        model = _model("ResNetForImageClassification", config, device, torch.float32, "eager").to(memory_format=LAST)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        loss = lambda net, x, y: functional.cross_entropy(net(x).logits, y)  # noqa: E731
        images = _images(batch, device).to(memory_format=LAST)
        return training(model, loss, optimizer, True, images, _labels(batch, 1000, device))

    return built


def _resnet152(batch: int) -> Callable[[str], Built]:
    """ResNet-152 in bf16, channels-last."""

    def built(device: str) -> Built:
        config = _config("ResNetConfig", depths=[3, 8, 36, 3], num_labels=1000)
        model = _model("ResNetForImageClassification", config, device, BF16, "eager").to(memory_format=LAST)
        return inference(model, _images(batch, device, BF16).to(memory_format=LAST))

    return built


def _convnext_tiny(batch: int) -> Callable[[str], Built]:
    """ConvNeXt-T in fp16, images stored channel by channel."""

    def built(device: str) -> Built:
        config = _config("ConvNextConfig", num_labels=1000)
        model = _model("ConvNextForImageClassification", config, device, FP16, "eager")
        return inference(model, _images(batch, device, FP16))

    return built


def _deit_train(batch: int) -> Callable[[str], Built]:
    """DeiT-S, mixed precision, fused AdamW."""

    def built(device: str) -> Built:
        sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6, "num_labels": 1000}
        model = _model("DeiTForImageClassification", _config("DeiTConfig", **sizes), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        loss = lambda net, x, y: functional.cross_entropy(net(x).logits, y)  # noqa: E731
        return training(model, loss, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


# -- text --------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of a GPT as people write it by hand."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.first(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in split)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class SmallGPT(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, length: int, vocabulary: int = 50304) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width, bias=False), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        logits: torch.Tensor = self.head(self.norm(self.layers(x)))
        return logits


def _gpt_train(batch: int, length: int) -> Callable[[str], Built]:
    """A GPT of 10 layers by hand, bf16 under autocast, fused AdamW."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = SmallGPT(10, 640, 10, length)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
        loss = lambda net, ids, y: functional.cross_entropy(net(ids).flatten(0, 1), y.flatten())  # noqa: E731
        ids, following = (_tokens(batch, length, 50304, device) for _ in range(2))
        return training(model, loss, optimizer, True, ids, following)

    return built


def _llama_train(batch: int, length: int) -> Callable[[str], Built]:
    """TinyLlama in bf16, AdamW over lists of tensors."""

    def built(device: str) -> Built:
        model = _model("LlamaForCausalLM", _config("LlamaConfig", **TINYLLAMA), device, BF16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        loss = lambda net, ids: net(input_ids=ids, labels=ids, use_cache=False).loss  # noqa: E731
        return training(model, loss, optimizer, False, _tokens(batch, length, 32000, device))

    return built


def _bert_large(batch: int, length: int) -> Callable[[str], Built]:
    """BERT-large for questions in fp16, with a mask of attention that hides nothing."""

    def built(device: str) -> Built:
        model = _model("BertForQuestionAnswering", _config("BertConfig", **LARGE), device, FP16)
        mask = torch.ones(batch, length, dtype=torch.int64, device=device)
        return inference(model, _tokens(batch, length, model.config.vocab_size, device), mask)

    return built


# -- tables ------------------------------------------------------------------------------------------------------------


def _mlp_train(batch: int, width: int, layers: int) -> Callable[[str], Built]:
    """Linear layers with ReLU and dropout in bf16 under autocast, Adam as it is by default."""

    def built(device: str) -> Built:
        with torch.device(device):
            parts = [(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1)) for _ in range(layers)]
            model = nn.Sequential(*(part for each in parts for part in each), nn.Linear(width, 100))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        loss = lambda net, x, y: functional.cross_entropy(net(x), y)  # noqa: E731
        return training(
            model, loss, optimizer, True, torch.randn(batch, width, device=device), _labels(batch, 100, device)
        )

    return built


CASES: dict[str, Callable[[str], Built]] = {
    "resnet18 train": _resnet18_train(160),
    "resnet152 inference": _resnet152(48),
    "convnext-t inference": _convnext_tiny(80),
    "deit-s train": _deit_train(112),
    "gpt by hand train": _gpt_train(12, 1024),
    "tinyllama train": _llama_train(3, 1536),
    "gpt2-medium prefill": _prefill("GPT2LMHeadModel", "GPT2Config", GPT2_MEDIUM, 6, 1024, **CAUSAL),
    "gpt2-medium train": _train("GPT2LMHeadModel", "GPT2Config", GPT2_MEDIUM, 5, 1024),
    "qwen-7b prefill": _prefill("Qwen2ForCausalLM", "Qwen2Config", QWEN_7B, 1, 1792, **CAUSAL),
    "qwen-7b decode": _decode("Qwen2ForCausalLM", "Qwen2Config", QWEN_7B, 20, 1792),
    "bert-large questions": _bert_large(24, 384),
    "roberta-large train": _train("RobertaForMaskedLM", "RobertaConfig", {**LARGE, "vocab_size": 50265}, 20, 128),
    "mlp train": _mlp_train(6144, 3072, 8),
}
