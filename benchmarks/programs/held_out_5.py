"""A fifth set of programs that no part of the predictor was fitted to or looked at; predicted before they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from held_out import _config, _model, _prefill
from held_out_4 import CAUSAL, FP16, in_tf32
from models import BF16, Bottleneck, Built, _classified, _images, _labels, _tokens, decoding, inference, training
from torch import nn

functional = nn.functional
LAST = torch.channels_last

FALCON = {
    "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "vocab_size": 50304, "multi_query": False,
    "parallel_attn": False, "bias": True, "alibi": False, "new_decoder_architecture": False,
}  # fmt: skip
GPTJ = {"n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 2048, "rotary_dim": 64, "vocab_size": 50400}
QWEN2_MOE = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 6, "num_attention_heads": 16, "num_key_value_heads": 16,
    "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
    "vocab_size": 151936,
}  # fmt: skip


# -- models of `transformers` ------------------------------------------------------------------------------------------


def _dinov2(batch: int) -> Callable[[str], Built]:
    """DINOv2-base with four registers, images of 224 pixels in patches of 14."""

    def built(device: str) -> Built:
        config = _config("Dinov2WithRegistersConfig", image_size=224, patch_size=14, num_register_tokens=4)
        return inference(_model("Dinov2WithRegistersModel", config, device, BF16), _images(batch, device, BF16))

    return built


def _gptj(batch: int, context: int) -> Callable[[str], Built]:
    """GPT-J-6B, whose attention is in separate products."""

    def built(device: str) -> Built:
        model = _model("GPTJForCausalLM", _config("GPTJConfig", **GPTJ), device, BF16, "eager")
        return decoding(model, batch, context, device)

    return built


def _convnext_v2_train(batch: int) -> Callable[[str], Built]:
    """ConvNeXt-V2-tiny: norms of the response over all pixels."""

    def built(device: str) -> Built:
        config = _config("ConvNextV2Config", num_labels=1000)
        model = _model("ConvNextV2ForImageClassification", config, device, torch.float32, "eager")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        loss = lambda net, x, y: functional.cross_entropy(net(x).logits, y)  # noqa: E731
        return training(model, loss, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


def _whisper_train(batch: int, length: int) -> Callable[[str], Built]:
    """Whisper-small, both sides: 30 seconds of sound, a text of so many tokens."""

    def built(device: str) -> Built:
        config = _config(
            "WhisperConfig",
            d_model=768,
            encoder_layers=12,
            decoder_layers=12,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
        )
        model = _model("WhisperForConditionalGeneration", config, device, torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        loss = lambda net, sound, text: net(input_features=sound, labels=text, use_cache=False).loss  # noqa: E731
        sound = torch.randn(batch, 80, 3000, device=device)
        return training(model, loss, optimizer, True, sound, _tokens(batch, length, config.vocab_size, device))

    return built


def _albert(batch: int, length: int) -> Callable[[str], Built]:
    """ALBERT-base in fp16: one layer, twelve times."""

    def built(device: str) -> Built:
        config = _config("AlbertConfig", hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=2)
        model = _model("AlbertForSequenceClassification", config, device, FP16)
        return inference(model, _tokens(batch, length, config.vocab_size, device))

    return built


def _t5_decoder(batch: int, source: int, target: int) -> Callable[[str], Built]:
    """The decoder of T5-large over what its encoder returned."""

    def built(device: str) -> Built:
        from transformers.modeling_outputs import BaseModelOutput

        config = _config(
            "T5Config",
            d_model=1024,
            d_kv=64,
            d_ff=2816,
            num_layers=24,
            num_heads=16,
            feed_forward_proj="gated-gelu",
            vocab_size=32128,
        )
        model = _model("T5ForConditionalGeneration", config, device, BF16).eval()

        @torch.no_grad()
        def step(states: torch.Tensor, tokens: torch.Tensor) -> Any:
            given = BaseModelOutput(last_hidden_state=states)
            return model(encoder_outputs=given, decoder_input_ids=tokens, use_cache=False).logits

        states = torch.randn(batch, source, 1024, device=device, dtype=BF16)
        return step, (states, _tokens(batch, target, config.vocab_size, device))

    return built


# -- models in plain PyTorch -------------------------------------------------------------------------------------------


class Dense(nn.Module):
    """Huang et al., 2017: every layer reads all before it."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat((x, self.conv2(functional.relu(self.norm2(y)))), 1)


def densenet(depths: tuple[int, ...], growth: int = 32) -> nn.Module:
    width = 2 * growth
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    for place, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(Dense(width, growth))
            width += growth
        if place < len(depths) - 1:
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000)]
    return nn.Sequential(*layers)


def _densenet_train(batch: int) -> Callable[[str], Built]:
    """DenseNet-121."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = densenet((6, 12, 24, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return training(model, _classified, optimizer, True, _images(batch, device), _labels(batch, 1000, device))

    return built


class Squeeze(nn.Module):
    """A factor for each channel from the mean of its pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(x, 1))))
        return x * functional.hardsigmoid(factor)


class Inverted(nn.Module):
    """Howard et al., 2019: widened, a channel at a time, narrowed."""

    def __init__(
        self, inputs: int, wide: int, outputs: int, kernel: int, stride: int, squeeze: bool, hard: bool
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if wide != inputs:
            layers += [nn.Conv2d(inputs, wide, 1, bias=False), nn.BatchNorm2d(wide), act()]
        layers += [
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            act(),
        ]
        layers += [Squeeze(wide)] if squeeze else []
        layers += [nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers, self.adds = nn.Sequential(*layers), stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


MOBILENET_V3 = (  # kernel, widened, outputs, squeeze, hard, stride
    *(
        (3, 16, 16, False, False, 1),
        (3, 64, 24, False, False, 2),
        (3, 72, 24, False, False, 1),
        (5, 72, 40, True, False, 2),
    ),
    *(
        (5, 120, 40, True, False, 1),
        (5, 120, 40, True, False, 1),
        (3, 240, 80, False, True, 2),
        (3, 200, 80, False, True, 1),
    ),
    *(
        (3, 184, 80, False, True, 1),
        (3, 184, 80, False, True, 1),
        (3, 480, 112, True, True, 1),
        (3, 672, 112, True, True, 1),
    ),
    *((5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1)),
)


def mobilenet_v3() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish()]
    inputs = 16
    for kernel, wide, outputs, squeeze, hard, stride in MOBILENET_V3:
        layers.append(Inverted(inputs, wide, outputs, kernel, stride, squeeze, hard))
        inputs = outputs
    layers += [nn.Conv2d(inputs, 960, 1, bias=False), nn.BatchNorm2d(960), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))


def _mobilenet_train(batch: int) -> Callable[[str], Built]:
    """MobileNetV3-large on channels-last images."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = mobilenet_v3().to(memory_format=LAST)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        images = _images(batch, device).to(memory_format=LAST)
        return training(model, _classified, optimizer, True, images, _labels(batch, 1000, device))

    return built


class Mixed(nn.Module):
    """A residual block with the time of diffusion, then attention within the image and to a text (Rombach et al., 2022)."""

    def __init__(self, inputs: int, width: int, text: int, heads: int = 8) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
        self.time, self.skip = nn.Linear(1280, width), nn.Conv2d(inputs, width, 1)
        self.norm, self.heads = nn.GroupNorm(32, width), heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.queries = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.keys = nn.ModuleList(nn.Linear(size, 2 * width, bias=False) for size in (width, text))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)

    def attention(self, place: int, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        q = self.queries[place](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.keys[place](other).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.outs[place](functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x))) + self.time(functional.silu(time))[:, :, None, None]
        x = self.skip(x) + self.conv2(functional.silu(self.norm2(y)))
        y = self.norm(x).flatten(2).transpose(1, 2)
        normed = self.norms[0](y)
        y = y + self.attention(0, normed, normed)
        y = y + self.attention(1, self.norms[1](y), text)
        value, gate = self.wide(self.norms[2](y)).chunk(2, -1)
        y = y + self.narrow(value * functional.gelu(gate))
        return x + y.transpose(1, 2).reshape(x.shape)


class Diffusion(nn.Module):
    """Two resolutions down, two up, with the results of the way down joined on the way up."""

    def __init__(self, widths: tuple[int, ...] = (320, 640, 1280), text: int = 768) -> None:
        super().__init__()
        first, second, third = widths
        self.first, self.last = nn.Conv2d(4, first, 3, padding=1), nn.Conv2d(first, 4, 3, padding=1)
        self.down = nn.ModuleList((Mixed(first, first, text), Mixed(first, second, text), Mixed(second, third, text)))
        self.halved = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for width in (first, second))
        self.up = nn.ModuleList(
            (Mixed(third + third, third, text), Mixed(third + second, second, text), Mixed(second + first, first, text))
        )
        self.norm = nn.GroupNorm(32, first)

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        x, kept = self.first(x), []
        for place, block in enumerate(self.down):
            x = block(x, time, text)
            kept.append(x)
            x = self.halved[place](x) if place < len(self.halved) else x
        for place, block in enumerate(self.up):
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest") if place else x
            x = block(torch.cat((x, kept.pop()), 1), time, text)
        return self.last(functional.silu(self.norm(x)))


def _diffusion(batch: int, side: int) -> Callable[[str], Built]:
    """In fp16, as pipelines run it."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = Diffusion().to(FP16)
        shapes = ((batch, 4, side, side), (batch, 1280), (batch, 77, 768))
        return inference(model, *(torch.randn(*shape, device=device, dtype=FP16) for shape in shapes))

    return built


class Induced(nn.Module):
    """Lee et al., 2019: a set attends to a few points of its own, and those to the set."""

    def __init__(self, width: int, points: int, heads: int = 8) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, width))
        self.first, self.second = (nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.within = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(2))

    def block(self, place: int, attention: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.norms[2 * place](x + attention(x, y, y, need_weights=False)[0])
        return self.norms[2 * place + 1](x + self.within[place](x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        summary = self.block(0, self.first, self.points.expand(x.shape[0], -1, -1), x)
        return self.block(1, self.second, x, summary)


class PointSet(nn.Module):
    def __init__(self, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(3, width), nn.Linear(width, classes)
        self.layers = nn.Sequential(*(Induced(width, 32) for _ in range(layers)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.layers(self.first(x)).amax(1))


def _points_train(batch: int, points: int) -> Callable[[str], Built]:
    """Classes of point clouds in fp32, products in tf32."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = PointSet(256, 4, 40)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        x = torch.randn(batch, points, 3, device=device)
        return in_tf32(training(model, _classified, optimizer, False, x, _labels(batch, 40, device)))

    return built


class Causal(nn.Module):
    """Bai et al., 2018: two dilated convolutions that see no later sample."""

    def __init__(self, inputs: int, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.pad = (kernel - 1) * dilation
        weighted = nn.utils.parametrizations.weight_norm
        self.first = weighted(nn.Conv1d(inputs, width, kernel, padding=self.pad, dilation=dilation))
        self.second = weighted(nn.Conv1d(width, width, kernel, padding=self.pad, dilation=dilation))
        self.skip = nn.Conv1d(inputs, width, 1) if inputs != width else nn.Identity()
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for layer in (self.first, self.second):
            y = self.drop(functional.relu(layer(y)[..., : -self.pad].contiguous()))
        return functional.relu(y + self.skip(x))


def _tcn_train(batch: int, length: int) -> Callable[[str], Built]:
    """A temporal convolutional network over long sequences, the next value as the target."""

    def built(device: str) -> Built:
        with torch.device(device):
            blocks = [Causal(8 if place == 0 else 128, 128, 7, 2**place) for place in range(6)]
            model = nn.Sequential(*blocks, nn.Conv1d(128, 8, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        loss = lambda net, x, y: functional.mse_loss(net(x), y)  # noqa: E731
        x, y = (torch.randn(batch, 8, length, device=device) for _ in range(2))
        return training(model, loss, optimizer, False, x, y)

    return built


class Pyramid(nn.Module):
    """Chen et al., 2017: convolutions of several dilations and the mean of the image, joined."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        sides = [nn.Conv2d(inputs, width, 1, bias=False)]
        sides += [nn.Conv2d(inputs, width, 3, padding=step, dilation=step, bias=False) for step in (6, 12, 18)]
        self.sides = nn.ModuleList(nn.Sequential(side, nn.BatchNorm2d(width), nn.ReLU()) for side in sides)
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inputs, width, 1), nn.ReLU())
        self.join = nn.Sequential(
            nn.Conv2d(5 * width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.5)
        )
        self.out = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, classes, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = functional.interpolate(self.mean(x), x.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(self.join(torch.cat([*(side(x) for side in self.sides), mean], 1)))


def deeplab(classes: int) -> nn.Module:
    """ResNet-50 whose last two stages keep their resolution, and a pyramid."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for width, blocks, stride, step in ((64, 3, 1, 1), (128, 4, 2, 1), (256, 6, 1, 2), (512, 3, 1, 4)):
        for place in range(blocks):
            block = Bottleneck(inputs, width, stride if place == 0 else 1)
            if step > 1:
                block.conv2 = nn.Conv2d(width, width, 3, padding=step, dilation=step, bias=False)
            layers.append(block)
            inputs = 4 * width
    return nn.Sequential(*layers, Pyramid(inputs, 256, classes))


def _deeplab_train(batch: int, side: int, classes: int = 21) -> Callable[[str], Built]:
    """DeepLab-v3."""

    def built(device: str) -> Built:
        with torch.device(device):
            model = deeplab(classes)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            scores = functional.interpolate(net(x), y.shape[-2:], mode="bilinear", align_corners=False)
            return functional.cross_entropy(scores, y)

        x = torch.randn(batch, 3, side, side, device=device)
        return training(model, loss, optimizer, True, x, torch.randint(0, classes, (batch, side, side), device=device))

    return built


CASES: dict[str, Callable[[str], Built]] = {
    "densenet121 train": _densenet_train(32),
    "dinov2-base inference": _dinov2(32),
    "convnext-v2-t train": _convnext_v2_train(32),
    "falcon-1b prefill": _prefill("FalconForCausalLM", "FalconConfig", FALCON, 4, 768, **CAUSAL),
    "gpt-j-6b decode": _gptj(8, 512),
    "qwen2-moe prefill": _prefill("Qwen2MoeForCausalLM", "Qwen2MoeConfig", QWEN2_MOE, 2, 1024, **CAUSAL),
    "whisper-small train": _whisper_train(8, 128),
    "albert-base inference": _albert(32, 256),
    "t5-large decoder": _t5_decoder(8, 512, 128),
    "mobilenet-v3 train": _mobilenet_train(128),
    "diffusion unet inference": _diffusion(4, 64),
    "point set train": _points_train(32, 2048),
    "tcn train": _tcn_train(32, 2048),
    "deeplab train": _deeplab_train(8, 384),
}
