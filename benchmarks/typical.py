"""Shapes as people ask for them, to judge expected times on: layers of well-known networks and language models, not sizes at random.

    python benchmarks/typical.py > cases.csv            never to be fitted to; the times are in benchmarks/data/h200-typical-test.csv.gz

Shapes that any table of benchmarks/data already holds are left out, so that none was fitted to. The same table every time, as long
as those tables are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from judge_h200 import DATA, rows

from ridgeline.measure.cuda.cases import fits
from ridgeline.measure.cuda.draw import Case
from ridgeline.measure.cuda.kernels import SIZES, table

SEED = 20261119
OWN_TABLE = "h200-typical-test.csv.gz"
# channels in and out, side of the image, kernel, stride, groups
CONVOLUTIONS = (
    *((3, 64, 224, 7, 2, 1), (64, 64, 56, 1, 1, 1), (64, 64, 56, 3, 1, 1), (64, 256, 56, 1, 1, 1), (256, 128, 56, 1, 1, 1)),
    *((128, 128, 56, 3, 2, 1), (128, 512, 28, 1, 1, 1), (256, 512, 56, 1, 2, 1), (512, 256, 28, 1, 1, 1), (256, 256, 28, 3, 2, 1)),
    *((256, 256, 14, 3, 1, 1), (256, 1024, 14, 1, 1, 1), (512, 512, 14, 3, 2, 1), (512, 512, 7, 3, 1, 1), (512, 2048, 7, 1, 1, 1)),
    *((3, 64, 224, 3, 1, 1), (64, 128, 112, 3, 1, 1), (128, 256, 56, 3, 1, 1), (256, 512, 28, 3, 1, 1), (512, 512, 28, 3, 1, 1)),
    *((4, 320, 64, 3, 1, 1), (320, 320, 64, 3, 1, 1), (320, 640, 32, 3, 1, 1), (640, 640, 32, 3, 1, 1), (1280, 1280, 16, 3, 1, 1)),
    *((1280, 1280, 8, 3, 1, 1), (1920, 640, 32, 3, 1, 1), (2560, 1280, 16, 3, 1, 1), (320, 320, 64, 3, 2, 1), (960, 320, 64, 1, 1, 1)),
    *((128, 128, 512, 3, 1, 1), (256, 256, 256, 3, 1, 1), (512, 512, 128, 3, 1, 1), (256, 128, 512, 1, 1, 1), (3, 128, 512, 3, 1, 1)),
    *((3, 96, 224, 4, 4, 1), (96, 96, 56, 7, 1, 96), (192, 192, 28, 7, 1, 192), (96, 192, 56, 2, 2, 1), (384, 384, 14, 7, 1, 384)),
    *((3, 32, 640, 3, 2, 1), (32, 64, 320, 3, 2, 1), (64, 64, 160, 3, 1, 1), (128, 256, 80, 3, 2, 1), (256, 512, 40, 3, 2, 1)),
    *((512, 256, 40, 1, 1, 1), (3, 768, 224, 16, 16, 1), (3, 1024, 224, 14, 14, 1), (32, 32, 112, 3, 1, 32), (144, 144, 56, 3, 2, 144)),
    *((16, 96, 112, 1, 1, 1), (96, 24, 56, 1, 1, 1), (320, 1280, 7, 1, 1, 1), (128, 128, 56, 3, 1, 32), (512, 512, 14, 3, 1, 32)),
)  # fmt: skip
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# hidden, inner, heads, heads of keys and values, size of a head, vocabulary
MODELS = (
    *((2048, 8192, 32, 8, 64, 128256), (4096, 14336, 32, 8, 128, 128256), (8192, 28672, 64, 8, 128, 128256)),
    *((3584, 18944, 28, 4, 128, 152064), (5120, 27648, 40, 8, 128, 152064), (3072, 8192, 32, 32, 96, 32064)),
    *((3584, 14336, 16, 8, 256, 256000), (4096, 11008, 32, 32, 128, 32000), (768, 3072, 12, 12, 64, 50257)),
)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 500, 1000, 2048, 3000, 4096, 8192, 16384)
PROMPTS, CACHES = (77, 197, 256, 512, 577, 1000, 2048, 4096, 8192, 16384, 32768), (128, 500, 1024, 3000, 8192, 32768)
BACKENDS = ("", "", "flash2", "cudnn", "efficient")
WEIGHTS = ("int4_g128z", "int4_g32z", "int4_g128 triton", "int8_g128 triton")
ROW_OPS = (
    "softmax",
    "layernorm",
    "rmsnorm",
    "layernorm_backward",
    "rmsnorm_backward",
    "softmax_backward",
    "sum_rows",
    "sum_columns",
)
VECTOR_OPS = ("add", "mul", "gelu", "gelu_erf", "silu", "relu", "dropout", "copy", "cast", "sgd")
COUNTS = {
    **{"conv2d": 170, "conv2d_gradient": 60, "gemm": 110, "prefill": 90, "decode": 70, "attention_backward": 30},
    **{"linear": 60, "gemv": 20, "row": 90, "vector": 60, "optimizer": 20, "vocabulary": 40, "pool": 25, "moe": 15},
}


class Typical:
    """Draws a case of a kind."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random

    def one(self, of: tuple) -> object:  # type: ignore[type-arg]
        return of[int(self.random.integers(len(of)))]

    def half(self) -> str:
        return str(self.one(("bf16", "bf16", "fp16")))

    def conv2d(self, op: str = "conv2d") -> Case:
        c_in, c_out, side, kernel, stride, groups = self.one(CONVOLUTIONS)  # type: ignore[misc]
        side = side if self.random.random() < 0.7 else max(side * int(self.one((2, 3))) // 2, kernel)
        patch = kernel == stride
        return {
            **{"op": op, "dtype": self.one(("bf16", "bf16", "fp16", "tf32", "fp32")), "batch": self.one(BATCHES)},
            **{"c_in": c_in, "c_out": c_out, "h": side, "w": side, "kernel": kernel, "stride": stride},
            **{"padding": 0 if patch else (kernel - 1) // 2, "groups": groups, "layout": self.one(("nchw", "nhwc"))},
        }

    def conv2d_gradient(self) -> Case:
        return self.conv2d(str(self.one(("conv2d_dgrad", "conv2d_wgrad"))))

    def gemm(self) -> Case:
        hidden, inner, heads, kv, size, vocabulary = self.one(MODELS)  # type: ignore[misc]
        n, k = self.one(
            (
                (inner, hidden),
                (2 * inner, hidden),
                (hidden, inner),
                ((heads + 2 * kv) * size, hidden),
                (vocabulary, hidden),
            )
        )  # type: ignore[misc]
        return {
            "op": "gemm",
            "dtype": self.one(("bf16", "fp16", "fp8_e4m3", "int8", "tf32")),
            "m": self.one(TOKENS[4:]),
            "n": n,
            "k": k,
        }

    def _heads(self) -> Case:
        _, _, heads, kv, size, _ = self.one(MODELS)  # type: ignore[misc]
        return {"dtype": self.half(), "heads": heads, "kv_heads": kv, "head_dim": size, "variant": "flash"}

    def prefill(self) -> Case:
        seq = self.one(PROMPTS)
        case = {
            "op": "attention",
            **self._heads(),
            "batch": self.one((1, 2, 4, 8, 16, 32)),
            "seq_q": seq,
            "seq_kv": seq,
        }
        return self._asked({**case, "causal": bool(self.random.random() < 0.7)})

    def decode(self) -> Case:
        case = {"op": "attention", **self._heads(), "batch": self.one((1, 4, 8, 16, 32, 64, 128, 256)), "seq_q": 1}
        return self._asked({**case, "seq_kv": self.one(CACHES), "causal": False})

    def attention_backward(self) -> Case:
        case = self.prefill()
        return {name: value for name, value in case.items() if name not in ("variant", "backend")} | {
            "op": "attention_backward"
        }

    def _asked(self, case: Case) -> Case:
        return {**case, "backend": self.one(BACKENDS)}

    def linear(self) -> Case:
        hidden, inner, *_ = self.one(MODELS)  # type: ignore[misc]
        into, out = self.one(((hidden, inner), (inner, hidden), (hidden, hidden)))  # type: ignore[misc]
        weights, _, backend = str(self.one(WEIGHTS)).partition(" ")
        return {
            "op": "linear",
            "dtype": "bf16",
            "weights": weights,
            "batch": self.one(TOKENS[:10]),
            "in_features": into,
            "out_features": out,
            "backend": backend,
        }

    def gemv(self) -> Case:
        hidden, inner, *_, vocabulary = self.one(MODELS)  # type: ignore[misc]
        m, n = self.one(((hidden, inner), (inner, hidden), (hidden, hidden), (vocabulary, hidden)))  # type: ignore[misc]
        return {"op": "gemv", "dtype": self.one(("bf16", "fp16", "fp32")), "m": m, "n": n}

    def row(self) -> Case:
        hidden, inner, *_ = self.one(MODELS)  # type: ignore[misc]
        return {
            "op": self.one(ROW_OPS),
            "dtype": self.one(("bf16", "fp16", "fp32")),
            "rows": self.one(TOKENS),
            "cols": self.one((hidden, inner, 1024, 4096)),
        }

    def vector(self) -> Case:
        hidden, inner, *_ = self.one(MODELS)  # type: ignore[misc]
        return {
            "op": self.one(VECTOR_OPS),
            "dtype": self.one(("bf16", "fp16", "fp32")),
            "n": int(self.one(TOKENS)) * int(self.one((hidden, inner))),
        }  # type: ignore[call-overload]

    def optimizer(self) -> Case:
        return {
            "op": "adamw",
            "dtype": "fp32",
            "n": int(self.one((25, 110, 350, 1000))) * 1000_000 + int(self.random.integers(10**6)),
            "variant": self.one(("fused", "foreach")),
        }  # type: ignore[call-overload]

    def vocabulary(self) -> Case:
        hidden, *_, vocabulary = self.one(MODELS)  # type: ignore[misc]
        case = {"dtype": self.half(), "rows": self.one(TOKENS[6:])}
        op = self.one(("cross_entropy", "cross_entropy_backward", "embedding", "embedding_backward"))
        return (
            {**case, "op": op, "cols": vocabulary}
            if "cross" in str(op)
            else {**case, "op": op, "vocab": vocabulary, "cols": hidden}
        )

    def pool(self) -> Case:
        _, channels, side, *_ = self.one(CONVOLUTIONS)  # type: ignore[misc]
        kernel, stride = self.one(((2, 2), (3, 2)))  # type: ignore[misc]
        return {
            **{
                "op": self.one(("max_pool2d", "max_pool2d_backward")),
                "dtype": self.half(),
                "batch": self.one(BATCHES),
                "channels": channels,
            },
            **{
                "h": side,
                "w": side,
                "kernel": kernel,
                "stride": stride,
                "padding": kernel // 3,
                "layout": self.one(("nchw", "nhwc")),
            },
        }

    def moe(self) -> Case:
        experts, topk, hidden, inner = self.one(
            ((8, 2, 4096, 14336), (64, 6, 2048, 1408), (128, 8, 2048, 768), (60, 4, 2048, 1408))
        )  # type: ignore[misc]
        return {
            "op": "moe",
            "dtype": "bf16",
            "tokens": self.one(TOKENS),
            "experts": experts,
            "topk": topk,
            "hidden": hidden,
            "inter": inner,
        }


def shapes_but(*tables: str) -> set[tuple[object, ...]]:
    """Every shape that other tables than these hold, whatever its layout, backend or library."""
    paths = [*DATA.glob("h200-*.csv"), *DATA.glob("h200-*.csv.gz")]
    return {shape_of(row) for path in paths if path.name not in tables for row in rows(path) if "op" in row}


def shape_of(case: Case) -> tuple[object, ...]:
    return (
        case["op"],
        case["dtype"],
        *(int(float(case[name])) if case.get(name) not in (None, "") else 0 for name in SIZES),
    )


def cases() -> Iterator[Case]:
    draw, taken = (
        Typical(np.random.default_rng(SEED)),
        shapes_but(
            OWN_TABLE,
            "h200-usualops-calibration.csv.gz",
            "h200-usualops-test.csv.gz",
            "h200-usualops2-calibration.csv.gz",
        ),
    )
    for kind, count in COUNTS.items():
        made = 0
        for _ in range(100 * count):
            case = {name: value for name, value in getattr(draw, kind)().items() if value != ""}
            if made == count:
                break
            if shape_of(case) not in taken and fits(case):
                taken.add(shape_of(case))
                made += 1
                yield case


if __name__ == "__main__":
    drawn = list(cases())
    # mixed, because products one after the other heat the GPU to its power limit, which random mixtures of kernels do not
    print(table([drawn[place] for place in np.random.default_rng(SEED).permutation(len(drawn))]), end="")
