"""Programs that no part of the predictor was fitted to or looked at; predicted before they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from models import BF16, Built, _images, _tokens, decoding, inference, made, resnet, training
from torch import nn


def _model(kind: Any, config: Any, device: str, dtype: torch.dtype, attention: str = "sdpa") -> nn.Module:
    """A model from its class, or the name of one of `transformers`."""
    import transformers

    return made(getattr(transformers, kind) if isinstance(kind, str) else kind, config, device, dtype, attention)


def _config(kind: str, **values: Any) -> Any:
    import transformers

    return getattr(transformers, kind)(**values)


QWEN = {
    "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2,
    "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
GEMMA = {
    "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1,
    "head_dim": 256, "vocab_size": 256000,
}  # fmt: skip
MISTRAL = {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 32000, "sliding_window": None,
}  # fmt: skip
LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}


def _prefill(
    kind: str, config: str, values: dict[str, Any], batch: int, length: int, **named: Any
) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        model = _model(kind, _config(config, **values), device, BF16)
        return inference(model, _tokens(batch, length, model.config.vocab_size, device), **named)

    return built


def _decode(kind: str, config: str, values: dict[str, Any], batch: int, context: int) -> Callable[[str], Built]:
    return lambda device: decoding(_model(kind, _config(config, **values), device, BF16), batch, context, device)


def _train(kind: str, config: str, values: dict[str, Any], batch: int, length: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        model = _model(kind, _config(config, **values), device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        tokens = _tokens(batch, length, model.config.vocab_size, device)
        return training(model, lambda net, ids: net(input_ids=ids, labels=ids).loss, optimizer, True, tokens)

    return built


def _resnet101(batch: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = resnet((3, 4, 23, 3))
            model[2] = nn.ReLU()
        model = model.to(torch.float16).to(memory_format=torch.channels_last)
        return inference(model, _images(batch, device, torch.float16).to(memory_format=torch.channels_last))

    return built


def _convnext(batch: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        config = _config("ConvNextConfig", depths=[3, 3, 27, 3], hidden_sizes=[128, 256, 512, 1024], num_labels=1000)
        return inference(
            _model("ConvNextForImageClassification", config, device, BF16, "eager"), _images(batch, device, BF16)
        )

    return built


CASES: dict[str, Callable[[str], Built]] = {
    "qwen2-1.5b prefill": _prefill("Qwen2ForCausalLM", "Qwen2Config", QWEN, 2, 1024, use_cache=True, logits_to_keep=1),
    "qwen2-1.5b decode": _decode("Qwen2ForCausalLM", "Qwen2Config", QWEN, 32, 512),
    "gemma-2b prefill": _prefill("GemmaForCausalLM", "GemmaConfig", GEMMA, 1, 1024, use_cache=True, logits_to_keep=1),
    "mistral-7b decode": _decode("MistralForCausalLM", "MistralConfig", MISTRAL, 4, 1024),
    "opt-1.3b prefill": _prefill(
        "OPTForCausalLM",
        "OPTConfig",
        {"hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24, "num_attention_heads": 32},
        4,
        512,
        use_cache=True,
    ),
    "roberta-large inference": _prefill("RobertaForMaskedLM", "RobertaConfig", {**LARGE, "vocab_size": 50265}, 16, 256),
    "bert-large train": _train("BertForMaskedLM", "BertConfig", LARGE, 8, 384),
    "resnet101 inference": _resnet101(32),
    "convnext-base inference": _convnext(32),
}
