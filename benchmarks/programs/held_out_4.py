"""A fourth set of programs that no part of the predictor was fitted to or looked at; predicted before they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from held_out import _config, _decode, _model, _prefill, _train
from models import BF16, Built, _classified, _images, _labels, _tokens, inference, training
from torch import nn

FP16 = torch.float16
functional = nn.functional

GEMMA2 = {
    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 256, "vocab_size": 256000, "query_pre_attn_scalar": 256, "sliding_window": 4096,
}  # fmt: skip
PHI = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 51200,
    "partial_rotary_factor": 0.5,
}  # fmt: skip
PYTHIA = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50304,
}  # fmt: skip
STABLELM = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 32,
    "vocab_size": 100352, "partial_rotary_factor": 0.25, "use_qkv_bias": True,
}  # fmt: skip


def in_tf32(built: Built) -> Built:
    """A program whose fp32 products run in tf32; the setting is that of the process, and is restored."""
    step, args = built

    def run(*given: Any) -> Any:
        before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
        try:
            return step(*given)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return run, args


# -- models of `transformers` ------------------------------------------------------------------------------------------


def _regnet(batch: int) -> Callable[[str], Built]:
    """RegNetY-4GF in fp16 on channels-last images."""

    def built(device: str) -> Built:
        config = _config(
            "RegNetConfig",
            embedding_size=32,
            hidden_sizes=[128, 192, 512, 1088],
            depths=[2, 6, 12, 2],
            groups_width=64,
            layer_type="y",
            num_labels=1000,
        )
        model = _model("RegNetForImageClassification", config, device, FP16, "eager")
        images = _images(batch, device, FP16).to(memory_format=torch.channels_last)
        return inference(model.to(memory_format=torch.channels_last), images)

    return built


def _beit(batch: int) -> Callable[[str], Built]:
    """BEiT-base in fp16: attention with a bias for the distance of two patches."""

    def built(device: str) -> Built:
        config = _config("BeitConfig", num_labels=1000, use_relative_position_bias=True)
        return inference(_model("BeitForImageClassification", config, device, FP16), _images(batch, device, FP16))

    return built


def _deberta(batch: int, length: int) -> Callable[[str], Built]:
    """DeBERTa-v3-base: attention between contents and positions, in separate products."""

    def built(device: str) -> Built:
        config = _config(
            "DebertaV2Config",
            vocab_size=128100,
            hidden_size=768,
            num_hidden_layers=12,
            num_attention_heads=12,
            intermediate_size=3072,
            relative_attention=True,
            position_buckets=256,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            num_labels=3,
        )
        model = _model("DebertaV2ForSequenceClassification", config, device, BF16, "eager")
        return inference(model, _tokens(batch, length, config.vocab_size, device))

    return built


def _bart_train(batch: int, source: int, target: int) -> Callable[[str], Built]:
    """BART-base, with its dropout."""

    def built(device: str) -> Built:
        config = _config(
            "BartConfig",
            d_model=768,
            encoder_layers=6,
            decoder_layers=6,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
        )
        model = _model("BartForConditionalGeneration", config, device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        inputs = (_tokens(batch, length, config.vocab_size, device) for length in (source, target))
        loss = lambda net, ids, labels: net(input_ids=ids, labels=labels, use_cache=False).loss  # noqa: E731
        return training(model, loss, optimizer, True, *inputs)

    return built


def _gemma2(batch: int, length: int) -> Callable[[str], Built]:
    """Gemma-2-2B: its scores are capped, which single attention kernels do not do."""

    def built(device: str) -> Built:
        model = _model("Gemma2ForCausalLM", _config("Gemma2Config", **GEMMA2), device, BF16, "eager")
        return inference(model, _tokens(batch, length, GEMMA2["vocab_size"], device), **CAUSAL)

    return built


def _wav2vec(batch: int, samples: int) -> Callable[[str], Built]:
    """wav2vec 2.0 base in fp16; its configuration is the default one."""

    def built(device: str) -> Built:
        model = _model("Wav2Vec2ForCTC", _config("Wav2Vec2Config"), device, FP16)
        return inference(model, torch.randn(batch, samples, device=device, dtype=FP16))

    return built


def _segformer_train(batch: int, side: int, classes: int = 150) -> Callable[[str], Built]:
    """SegFormer-B2 in fp32, products in tf32."""

    def built(device: str) -> Built:
        config = _config(
            "SegformerConfig",
            depths=[3, 4, 6, 3],
            hidden_sizes=[64, 128, 320, 512],
            decoder_hidden_size=768,
            num_labels=classes,
        )
        model = _model("SegformerForSemanticSegmentation", config, device, torch.float32, "eager")
        optimizer = torch.optim.AdamW(model.parameters(), lr=6e-5, fused=True)

        def loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(functional.interpolate(net(x).logits, scale_factor=4, mode="bilinear"), y)

        x = torch.randn(batch, 3, side, side, device=device)
        y = torch.randint(0, classes, (batch, side, side), device=device)
        return in_tf32(training(model, loss, optimizer, False, x, y))

    return built


# -- models in plain PyTorch -------------------------------------------------------------------------------------------


class Messages(nn.Module):
    """Gilmer et al., 2017: a perceptron over both ends of every edge, summed at the nodes, then one over nodes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))
        self.node, self.norm = nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        messages = self.edge(torch.cat((x[source], x[target]), 1))
        summed = torch.zeros_like(x).index_add(0, target, messages)
        return x + self.norm(functional.relu(self.node(torch.cat((x, summed), 1))))


class GraphNetwork(nn.Module):
    def __init__(self, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(inputs, width), nn.Linear(width, classes)
        self.layers = nn.ModuleList(Messages(width) for _ in range(layers))

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        for layer in self.layers:
            y = layer(y, source, target)
        return self.out(y)


def _graph_train(nodes: int, edges: int, width: int) -> Callable[[str], Built]:
    """Message passing over a random graph in fp32, products in tf32; a class for every node."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = GraphNetwork(64, width, 3, 40)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def loss(net: nn.Module, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor, y: Any) -> torch.Tensor:
            return functional.cross_entropy(net(x, source, target), y)

        ends = [torch.randint(0, nodes, (edges,), device=device) for _ in range(2)]
        x = torch.randn(nodes, 64, device=device)
        return in_tf32(training(model, loss, optimizer, False, x, *ends, _labels(nodes, 40, device)))

    return built


class MixerBlock(nn.Module):
    """Tolstikhin et al., 2021: a perceptron over patches, then one over channels."""

    def __init__(self, patches: int, width: int, across: int, within: int) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, across), nn.GELU(), nn.Linear(across, patches))
        self.within = nn.Sequential(nn.Linear(width, within), nn.GELU(), nn.Linear(within, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.before(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.after(x))


class Mixer(nn.Module):
    def __init__(self, width: int, depth: int, across: int, within: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks = nn.Sequential(*(MixerBlock(196, width, across, within) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


def _mixer_train(batch: int) -> Callable[[str], Built]:
    """Mixer-B/16."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = Mixer(768, 12, 384, 3072)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
        return training(model, _classified, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


class Residual(nn.Module):
    """The block of autoencoders of latent diffusion (Rombach et al., 2022)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(32, inputs), nn.GroupNorm(32, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.first(x)))
        return self.skip(x) + self.conv2(functional.silu(self.second(y)))


class PixelAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(32, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, width, *sides = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(batch, width, *sides)


class Upsample(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(functional.interpolate(x, scale_factor=2, mode="nearest"))


def decoder(widths: tuple[int, ...]) -> nn.Module:
    """From latent images of 4 channels to images of 8 times their sides."""
    layers: list[nn.Module] = [nn.Conv2d(4, widths[0], 3, padding=1), Residual(widths[0], widths[0])]
    layers += [PixelAttention(widths[0]), Residual(widths[0], widths[0])]
    inputs = widths[0]
    for place, width in enumerate(widths):
        layers += [Residual(inputs, width), Residual(width, width), Residual(width, width)]
        layers += [Upsample(width)] if place < len(widths) - 1 else []
        inputs = width
    return nn.Sequential(*layers, nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, 3, 3, padding=1))


def _decoder(batch: int, side: int) -> Callable[[str], Built]:
    """In fp16."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = decoder((512, 512, 256, 128)).to(FP16)
        return inference(model, torch.randn(batch, 4, side, side, device=device, dtype=FP16))

    return built


class Encoder(nn.Module):
    """Layers of GRU over sequences of vectors, a class for each sequence."""

    def __init__(self, inputs: int, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, width, layers, batch_first=True)
        self.out = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(x)[0][:, -1])


def _gru(batch: int, length: int) -> Callable[[str], Built]:
    """In fp16."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = Encoder(256, 768, 2, 35).to(FP16)
        return inference(model, torch.randn(batch, length, 256, device=device, dtype=FP16))

    return built


CAUSAL: dict[str, Any] = {"use_cache": True, "logits_to_keep": 1}
CASES: dict[str, Callable[[str], Built]] = {
    "regnet-y inference": _regnet(64),
    "beit-base inference": _beit(48),
    "deberta-v3-base inference": _deberta(16, 256),
    "bart-base train": _bart_train(16, 256, 128),
    "gemma2-2b prefill": _gemma2(2, 768),
    "phi-1.5 decode": _decode("PhiForCausalLM", "PhiConfig", PHI, 16, 640),
    "pythia-160m train": _train("GPTNeoXForCausalLM", "GPTNeoXConfig", PYTHIA, 16, 512),
    "stablelm-1.6b prefill": _prefill("StableLmForCausalLM", "StableLmConfig", STABLELM, 4, 640, **CAUSAL),
    "wav2vec2-base inference": _wav2vec(16, 80000),
    "segformer-b2 train": _segformer_train(8, 256),
    "graph network train": _graph_train(40000, 400000, 128),
    "mixer-b train": _mixer_train(64),
    "image decoder inference": _decoder(4, 32),
    "gru encoder inference": _gru(128, 120),
}
