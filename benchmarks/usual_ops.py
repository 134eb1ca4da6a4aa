"""Kernels around the products and convolutions of models, at the sizes of models people run.

    python benchmarks/usual_ops.py calibration > cases.csv    to fit to
    python benchmarks/usual_ops.py more > cases.csv           the same again, other draws
    python benchmarks/usual_ops.py test > cases.csv           models that the calibration leaves out; never to be fitted to

Shapes that another table of benchmarks/data holds are left out. The same tables every time, as long as no table was added.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from typical import shape_of, shapes_but

from ridgeline.measure.cuda.cases import fits
from ridgeline.measure.cuda.draw import Case
from ridgeline.measure.cuda.kernels import table

Model = tuple[
    int, int, int, int, int, int
]  # hidden, inner, heads, heads of keys and values, size of a head, vocabulary
MODELS: dict[str, tuple[Model, ...]] = {
    "calibration": (
        *((2048, 8192, 32, 8, 64, 128256), (3072, 8192, 24, 8, 128, 128256), (4096, 14336, 32, 8, 128, 128256)),
        *((8192, 28672, 64, 8, 128, 128256), (16384, 53248, 128, 8, 128, 128256), (4096, 11008, 32, 32, 128, 32000)),
        *((5120, 13824, 40, 40, 128, 32000), (4096, 14336, 32, 8, 128, 32768), (5120, 14336, 32, 8, 128, 131072)),
        *((896, 4864, 14, 2, 64, 151936), (1536, 8960, 12, 2, 128, 151936), (2048, 11008, 16, 2, 128, 151936)),
        *((3584, 18944, 28, 4, 128, 152064), (5120, 13824, 40, 8, 128, 152064), (5120, 27648, 40, 8, 128, 152064)),
        *((8192, 29568, 64, 8, 128, 152064), (2304, 9216, 8, 4, 256, 256000), (3584, 14336, 16, 8, 256, 256000)),
        *((4608, 36864, 32, 16, 128, 256000), (2560, 10240, 32, 32, 80, 51200), (3072, 8192, 32, 32, 96, 32064)),
        *((768, 3072, 12, 12, 64, 50257), (1024, 4096, 16, 16, 64, 50257), (1280, 5120, 20, 20, 64, 50257)),
        *((1600, 6400, 25, 25, 64, 50257), (768, 3072, 12, 12, 64, 30522), (1024, 4096, 16, 16, 64, 30522)),
        *((4544, 18176, 71, 1, 64, 65024), (4096, 16384, 32, 32, 128, 50272), (7168, 20480, 56, 8, 128, 64000)),
        *((8192, 22528, 64, 64, 128, 256000), (2560, 6912, 32, 32, 80, 50304), (1280, 5120, 16, 16, 80, 1000)),
    ),
    "test": (
        *((1024, 3072, 16, 8, 128, 151936), (2560, 9728, 32, 8, 128, 151936), (4096, 12288, 32, 8, 128, 151936)),
        *((5120, 25600, 64, 8, 128, 151936), (5120, 17920, 40, 10, 128, 100352), (2560, 10240, 8, 4, 256, 262208)),
        *((3840, 15360, 16, 8, 256, 262208), (2880, 2880, 64, 8, 64, 201088), (4096, 12800, 32, 8, 128, 49155)),
        *((2048, 8192, 32, 32, 64, 49152), (960, 2560, 15, 5, 64, 49152), (6144, 24576, 48, 8, 128, 256000)),
        *((5120, 32768, 32, 8, 128, 131072), (7168, 18432, 128, 128, 128, 129280), (1152, 4304, 16, 16, 72, 1000)),
    ),
}
# channels and side of the images between layers of ResNets, VGG, U-Nets, autoencoders, EfficientNets, detectors
IMAGES: dict[str, tuple[tuple[int, int], ...]] = {
    "calibration": (
        *((64, 112), (64, 56), (256, 56), (128, 56), (128, 28), (512, 28), (256, 28), (256, 14), (1024, 14), (512, 14)),
        *(
            (512, 7),
            (2048, 7),
            (64, 224),
            (128, 112),
            (256, 56),
            (512, 28),
            (320, 64),
            (640, 32),
            (1280, 16),
            (1280, 8),
        ),
        *(
            (128, 512),
            (256, 256),
            (512, 128),
            (512, 64),
            (32, 112),
            (96, 112),
            (144, 56),
            (192, 28),
            (576, 14),
            (960, 7),
        ),
        *((96, 55), (256, 27), (384, 13), (32, 320), (64, 160), (128, 80), (256, 40), (512, 20), (64, 128), (192, 35)),
    ),
    "test": (
        *((48, 112), (72, 56), (160, 56), (336, 28), (728, 19), (384, 24), (768, 12), (1536, 10), (2208, 7), (176, 48)),
        *(
            (64, 256),
            (128, 128),
            (320, 96),
            (640, 48),
            (1280, 24),
            (80, 160),
            (160, 80),
            (320, 40),
            (640, 20),
            (24, 150),
        ),
    ),
}
EXPERTS = {  # experts, topk, hidden, inner
    "calibration": ((8, 2, 4096, 14336), (64, 6, 2048, 1408), (60, 4, 2048, 1408), (16, 2, 4096, 6400), (64, 8, 2048, 1024)),
    "test": ((128, 8, 4096, 1536), (32, 4, 2880, 2880), (160, 6, 5120, 1536), (40, 8, 1536, 512)),
}  # fmt: skip
TOKENS = (1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 500, 512, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PROMPTS = (50, 77, 128, 197, 256, 257, 384, 512, 577, 1000, 1024, 1500, 2048, 4096, 8192, 16384, 32768)
CACHES = (64, 128, 256, 500, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 32768, 65536)
WEIGHTS = ("int4_g128z", "int4_g64z", "int4_g32z", "int4_g128 triton", "int4_g64 triton", "int8_g128 triton")
ROWS = (
    *("softmax", "softmax_backward", "log_softmax_backward", "layernorm", "layernorm_backward", "rmsnorm"),
    *("rmsnorm_backward", "sum_rows", "sum_columns", "layernorm_backward", "sum_rows", "sum_columns"),
)
VECTORS = (
    *(
        "add",
        "mul",
        "residual",
        "relu",
        "gelu",
        "gelu_erf",
        "silu",
        "sigmoid",
        "tanh",
        "dropout",
        "copy",
        "exp",
        "scal",
    ),
    *(
        "relu_backward",
        "gelu_backward",
        "gelu_erf_backward",
        "silu_backward",
        "sgd",
        "sum",
        "nrm2",
        "cast",
        "cast",
        "cast",
    ),
)
FORMATS = ("bf16", "fp16", "fp32")
# share of all draws
KINDS = {
    **{"prefill": 0.11, "named_prefill": 0.12, "decode": 0.08, "named_decode": 0.09, "attention_backward": 0.04},
    **{"linear": 0.15, "gemv": 0.02, "row": 0.17, "vector": 0.11, "vocabulary": 0.04, "pool": 0.04, "image": 0.025},
    "moe": 0.005,
}
SEEDS = {"calibration": (20261120, 14_000), "test": (20261121, 1_400), "more": (20261122, 14_000)}
TABLES = {
    "calibration": "h200-usualops-calibration.csv.gz",
    "test": "h200-usualops-test.csv.gz",
    "more": "h200-usualops2-calibration.csv.gz",
}
FREE = 0.3  # share of sizes of rows, tokens and caches that are none of the usual


class Draws:
    """Draws a case of a kind."""

    def __init__(self, name: str, random: np.random.Generator) -> None:
        self.name, self.random = name, random

    def one(self, of: tuple) -> object:  # type: ignore[type-arg]
        return of[int(self.random.integers(len(of)))]

    def usual(self, of: tuple[int, ...]) -> int:
        """One of the usual sizes, or any between the least and the most."""
        if self.random.random() < FREE:
            return round(np.exp2(self.random.uniform(np.log2(of[0]), np.log2(of[-1]))))
        return int(self.one(of))  # type: ignore[call-overload]

    def model(self) -> Model:
        return self.one(MODELS[self.name])  # type: ignore[return-value]

    def half(self) -> str:
        return str(self.one(("bf16", "bf16", "fp16")))

    def heads(self) -> Case:
        """Of a model, or of the part of it that one of several GPUs has."""
        _, _, heads, kv, size, _ = self.model()
        parts = int(self.one((1, 1, 1, 2, 4, 8)))  # type: ignore[call-overload]
        if not heads % parts:
            heads, kv = heads // parts, max(kv // parts, 1)
        if heads % kv:
            kv = heads
        return {"dtype": self.half(), "heads": heads, "kv_heads": kv, "head_dim": size, "variant": "flash"}

    def prefill(self) -> Case:
        seq, batch = self.usual(PROMPTS), self.one((1, 1, 2, 4, 8, 16, 32))
        case = {"op": "attention", **self.heads(), "batch": batch, "seq_q": seq, "seq_kv": seq}
        if self.random.random() < 0.1 and seq > 64:  # after a prompt that is known
            case["seq_kv"] = seq + self.usual(CACHES)
        return {**case, "causal": bool(self.random.random() < 0.7 and case["seq_q"] == case["seq_kv"])}

    def decode(self) -> Case:
        batch = self.usual((1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
        case = {"op": "attention", **self.heads(), "batch": batch, "seq_q": 1}
        return {**case, "seq_kv": self.usual(CACHES), "causal": False}

    def named(self, case: Case, *more: str) -> Case:
        backend = self.one(("flash2", "flash2", "cudnn", "efficient", *more))
        shared = {"kv_heads": case["heads"]} if backend == "efficient" else {}
        return {**case, **shared, "backend": backend}

    def named_prefill(self) -> Case:
        case = self.prefill()
        return self.named(case, "triton") if case["head_dim"] in (64, 128, 256) else self.named(case)

    def named_decode(self) -> Case:
        return self.named(self.decode())

    def attention_backward(self) -> Case:
        case = self.prefill()
        kept = {name: value for name, value in case.items() if name != "variant"}
        return {**kept, "op": "attention_backward", "seq_kv": case["seq_q"]}

    def linear(self) -> Case:
        hidden, inner, heads, kv, size, _ = self.model()
        into, out = self.one(
            ((hidden, inner), (hidden, 2 * inner), (inner, hidden), (hidden, hidden), (hidden, (heads + 2 * kv) * size))
        )  # type: ignore[misc]
        parts = int(self.one((1, 1, 1, 2, 4, 8)))  # type: ignore[call-overload]
        if self.random.random() < 0.5:
            out = out // parts
        else:
            into = into // parts
        weights, _, backend = str(self.one(WEIGHTS)).partition(" ")
        tokens = self.usual(TOKENS[:12])
        case = {"op": "linear", "dtype": "bf16", "weights": weights, "batch": tokens}
        return {
            **case,
            "in_features": max(into // 128, 1) * 128,
            "out_features": max(out // 64, 1) * 64,
            "backend": backend,
        }

    def gemv(self) -> Case:
        hidden, inner, *_, vocabulary = self.model()
        m, n = self.one(((hidden, inner), (inner, hidden), (hidden, hidden), (vocabulary, hidden)))  # type: ignore[misc]
        return {"op": "gemv", "dtype": self.one(FORMATS), "m": m, "n": n}

    def row(self) -> Case:
        hidden, inner, heads, *_, vocabulary = self.model()
        op = str(self.one(ROWS))
        cols = int(self.one((hidden, hidden, hidden, inner, 1024, 4096)))  # type: ignore[call-overload]
        rows = self.usual(TOKENS)
        if "softmax" in op and self.random.random() < 0.5:  # of attention that is written out, and of vocabularies
            length = int(self.one((64, 128, 197, 256, 512, 577, 1024, 2048)))  # type: ignore[call-overload]
            batch = int(self.one((1, 2, 4, 8)))  # type: ignore[call-overload]
            rows, cols = (batch * heads * length, length) if self.random.random() < 0.7 else (rows, vocabulary)
        return {"op": op, "dtype": self.one(FORMATS), "rows": rows, "cols": cols}

    def vector(self) -> Case:
        hidden, inner, *_ = self.model()
        op, n = str(self.one(VECTORS)), self.usual(TOKENS) * int(self.one((hidden, inner)))  # type: ignore[call-overload]
        if self.random.random() < 0.3:
            channels, side = self.one(IMAGES[self.name])  # type: ignore[misc]
            n = int(self.one(BATCHES)) * channels * side**2  # type: ignore[call-overload]
        case: Case = {"op": op, "dtype": self.one(FORMATS), "n": n}
        if op == "cast":
            case["out_dtype"] = self.one(tuple(name for name in FORMATS if name != case["dtype"]))
        if op == "sgd":
            case |= {"dtype": "fp32", "momentum": bool(self.random.random() < 0.5)}
        return case

    def vocabulary(self) -> Case:
        hidden, *_, vocabulary = self.model()
        op = str(self.one(("cross_entropy", "cross_entropy_backward", "embedding", "embedding_backward")))
        case = {"op": op, "dtype": self.one(FORMATS), "rows": self.usual(TOKENS[3:-1])}
        return {**case, "cols": vocabulary} if "cross" in op else {**case, "vocab": vocabulary, "cols": hidden}

    def pool(self) -> Case:
        channels, side = self.one(IMAGES[self.name])  # type: ignore[misc]
        kernel, stride = self.one(((2, 2), (3, 2), (3, 2), (3, 1), (5, 1)))  # type: ignore[misc]
        op, batch = self.one(("max_pool2d", "max_pool2d_backward")), self.one(BATCHES)
        case = {"op": op, "dtype": self.one(FORMATS), "batch": batch, "channels": channels, "h": side, "w": side}
        padding = kernel // 2 if kernel > 2 else 0
        return {**case, "kernel": kernel, "stride": stride, "padding": padding, "layout": self.one(("nchw", "nhwc"))}

    def image(self) -> Case:
        channels, side = self.one(IMAGES[self.name])  # type: ignore[misc]
        op = self.one(("batchnorm_inference", "batchnorm_training", "batchnorm_backward"))
        case = {"op": op, "dtype": self.one(FORMATS), "batch": max(int(self.one(BATCHES)), 2), "channels": channels}  # type: ignore[call-overload]
        return {**case, "pixels": side * side, "layout": self.one(("nchw", "nhwc"))}

    def moe(self) -> Case:
        experts, topk, hidden, inner = self.one(EXPERTS[self.name])  # type: ignore[misc]
        case = {"op": "moe", "dtype": "bf16", "tokens": self.usual(TOKENS[:-1]), "experts": experts, "topk": topk}
        return {**case, "hidden": hidden, "inter": inner}


def cases(name: str) -> Iterator[Case]:
    seed, count = SEEDS[name]
    later = list(TABLES.values())[list(TABLES).index(name) :] if name == "more" else TABLES.values()
    draws = Draws("test" if name == "test" else "calibration", np.random.default_rng(seed))
    known = shapes_but(*later)
    if name == "calibration":
        known |= {shape_of(case) for case in cases("test")}
    kinds = draws.random.choice(list(KINDS), count, p=np.array(list(KINDS.values())))
    for kind in kinds:
        case = {key: value for key, value in getattr(draws, str(kind))().items() if value != ""}
        if shape_of(case) not in known and fits(case):
            known.add(shape_of(case))
            yield case


if __name__ == "__main__":
    print(table(list(cases(sys.argv[1]))), end="")
