"""Programs that predictions are compared with: well-known models as a user runs them, on a GPU or on the meta device.

    build("gpt2 train", device) -> (callable, args)

Weights are random: times do not depend on them. Sizes are those of the published configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Built = tuple[Callable[..., Any], tuple[Any, ...]]
BF16 = torch.bfloat16


# -- image models ------------------------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), classes: int = 1000) -> nn.Sequential:
    """ResNet-50, or one with other numbers of blocks."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for width, blocks, stride in zip((64, 128, 256, 512), depths, (1, 2, 2, 2), strict=True):
        for place in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if place == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


# -- what is done with a model -----------------------------------------------------------------------------------------


def inference(model: nn.Module, *inputs: torch.Tensor, **named: Any) -> Built:
    model.eval()

    @torch.no_grad()
    def step(*given: torch.Tensor) -> Any:
        return model(*given, **named)

    return step, inputs


def training(
    model: nn.Module,
    loss_of: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    amp: bool,
    *inputs: torch.Tensor,
) -> Built:
    """One step: forward, loss, backward, optimizer; the model in fp32 under autocast to bf16, or in its own format."""
    model.train()

    def step(*given: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", BF16, enabled=amp):
            loss = loss_of(model, *given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, inputs


def _images(batch: int, device: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(batch, 3, 224, 224, device=device, dtype=dtype)


def _labels(count: int, classes: int, device: str) -> torch.Tensor:
    return torch.randint(0, classes, (count,), device=device)


def _tokens(batch: int, length: int, vocabulary: int, device: str) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length), device=device)


def _classified(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y)


def _next_token(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return model(input_ids=tokens, labels=tokens, use_cache=False).loss


# -- models of `transformers` ------------------------------------------------------------------------------------------


def made(kind: Any, config: Any, device: str, dtype: torch.dtype, attention: str = "sdpa") -> nn.Module:
    """A model from its class and configuration, with random weights of a format."""
    config._attn_implementation = attention
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model: nn.Module = kind(config)
    finally:
        torch.set_default_dtype(before)
    return model


def decoding(model: nn.Module, batch: int, context: int, device: str) -> Built:
    """One new token for each sequence, with a cache of `context` tokens.

    The cache is cut back after each step: cuDNN plans its attention anew for every length it has not seen (40 ms each).
    """
    from transformers import DynamicCache

    config = model.eval().config
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (batch, heads, context + 1, size)  # as a step leaves it, before it is cut back
    cache = DynamicCache()
    for layer in range(config.num_hidden_layers):
        keys, values = (torch.randn(shape, device=device, dtype=BF16) for _ in range(2))
        cache.update(keys, values, layer)
    cache.crop(context)

    @torch.no_grad()
    def step(token: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        cache.crop(context)
        return logits

    return step, (_tokens(batch, 1, config.vocab_size, device),)


# -- configurations ----------------------------------------------------------------------------------------------------


def _language_model(name: str, device: str, dtype: torch.dtype) -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    llama = {"vocab_size": 128256, "rope_theta": 500000.0, "max_position_embeddings": 131072}
    configs: dict[str, tuple[Any, Any]] = {
        "gpt2": (GPT2LMHeadModel, GPT2Config(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)),
        "bert": (BertForMaskedLM, BertConfig()),
        "llama-1b": (
            LlamaForCausalLM,
            LlamaConfig(
                hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                head_dim=64, tie_word_embeddings=True, **llama,
            ),
        ),
        "llama-8b": (
            LlamaForCausalLM,
            LlamaConfig(
                hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, **llama,
            ),
        ),
    }  # fmt: skip
    kind, config = configs[name]
    return made(kind, config, device, dtype)


def _prefill(name: str, batch: int, length: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        model = _language_model(name, device, BF16)
        tokens = _tokens(batch, length, model.config.vocab_size, device)
        causal = {"use_cache": True, "logits_to_keep": 1} if name != "bert" else {}
        return inference(model, tokens, **causal)

    return built


def _decode(name: str, batch: int, context: int) -> Callable[[str], Built]:
    return lambda device: decoding(_language_model(name, device, BF16), batch, context, device)


def _train_tokens(name: str, batch: int, length: int, amp: bool, **settings: Any) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        model = _language_model(name, device, torch.float32 if amp else BF16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **settings)
        if name == "bert":
            tokens = _tokens(batch, length, model.config.vocab_size, device)
            return training(model, lambda net, ids: net(input_ids=ids, labels=ids).loss, optimizer, amp, tokens)
        return training(model, _next_token, optimizer, amp, _tokens(batch, length, model.config.vocab_size, device))

    return built


def _resnet_inference(batch: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = resnet()
        return inference(model.to(BF16), _images(batch, device, BF16))

    return built


def _resnet_training(batch: int, channels_last: bool) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        with torch.device(device):
            model = resnet()
        x = _images(batch, device)
        if channels_last:
            model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return training(model, _classified, optimizer, True, x, _labels(batch, 1000, device))

    return built


def _vit(device: str, dtype: torch.dtype) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(num_labels=1000, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa"
    with torch.device(device):
        model: nn.Module = ViTForImageClassification(config)
    return model.to(dtype)


def _vit_inference(batch: int) -> Callable[[str], Built]:
    return lambda device: inference(_vit(device, BF16), _images(batch, device, BF16))


def _vit_training(batch: int) -> Callable[[str], Built]:
    def built(device: str) -> Built:
        model = _vit(device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loss = lambda net, x, y: nn.functional.cross_entropy(net(x).logits, y)  # noqa: E731
        return training(model, loss, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


CASES: dict[str, Callable[[str], Built]] = {
    "resnet50 inference": _resnet_inference(64),
    "resnet50 train": _resnet_training(64, channels_last=True),
    "vit inference": _vit_inference(64),
    "vit train": _vit_training(64),
    "gpt2 prefill": _prefill("gpt2", 8, 1024),
    "gpt2 decode": _decode("gpt2", 8, 960),
    "gpt2 train": _train_tokens("gpt2", 8, 1024, True, fused=True),
    "bert inference": _prefill("bert", 32, 512),
    "bert train": _train_tokens("bert", 16, 512, True),
    "llama-1b prefill": _prefill("llama-1b", 1, 2048),
    "llama-1b decode": _decode("llama-1b", 16, 2048),
    "llama-1b train": _train_tokens("llama-1b", 2, 1024, False),
    "llama-8b prefill": _prefill("llama-8b", 1, 2048),
    "llama-8b decode": _decode("llama-8b", 8, 4096),
    "llama-8b train": _train_tokens("llama-8b", 1, 1024, False, fused=True),
}
