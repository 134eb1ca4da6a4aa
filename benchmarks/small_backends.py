"""Cases of kernels by backend, of weight-only formats and of experts, at sizes that other tables begin above or end below.

    python benchmarks/small_backends.py calibration > cases.csv
    python benchmarks/small_backends.py test > cases.csv            never to be fitted to

Few and narrow heads by a named backend, small projections with quantized weights, batches beyond 256, many small experts.
Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

from drawn import print_cases

from ridgeline.measure.cuda.draw import Case, Draw

TIMES = {"calibration": 4, "test": 1}
SEEDS = {"calibration": 8610, "test": 8620}
BACKENDS = ("flash2", "cudnn", "efficient", "triton")
HEADS, HEAD_DIMS, POWERS = (1, 2, 3, 4, 6, 8, 16), (16, 32, 40, 64, 72, 96, 128, 192), (16, 32, 64, 128)
WEIGHTS = {"": ("int4_g128z", "int4_g64z", "int4_g32z"), "triton": ("int4_g128", "int4_g64", "int8_g128")}
MAX_SCORES = 1 << 33


def _attention(draw: Draw, backend: str, decode: bool) -> Case:
    heads, keys = draw.choice(HEADS), draw.size(16, 8192 if decode else 2048)
    dims = POWERS if backend == "triton" else HEAD_DIMS
    case: Case = {"op": "attention", "dtype": draw.choice(("bf16", "fp16")), "batch": draw.size(1, 128), "heads": heads}
    case |= {"kv_heads": heads, "seq_q": 1 if decode else keys, "seq_kv": keys, "head_dim": draw.choice(dims)}
    while case["batch"] * heads * case["seq_q"] * keys > MAX_SCORES:
        case["batch"] //= 2
    return case | {"causal": not decode and draw.chance(0.5), "backend": backend}


def _linear(draw: Draw, backend: str, weights: str) -> Case:
    inner, outer = draw.size(128, 4096, 128), draw.size(128, 4096, 128)
    case: Case = {"op": "linear", "dtype": "bf16", "batch": draw.size(1, 2048), "in_features": inner}
    return case | {"out_features": outer, "weights": weights} | ({"backend": backend} if backend else {})


def _rowwise(draw: Draw) -> Case:
    m, n, k = draw.size(1, 2048), draw.size(16, 2048, 16), draw.size(16, 2048, 16)
    return {"op": "gemm", "dtype": "fp8_e4m3", "m": m, "n": n, "k": k, "backend": "rowwise"}


def _experts(draw: Draw) -> Case:
    experts = draw.choice((2, 4, 8, 16, 64, 128, 256))
    case: Case = {"op": "moe", "dtype": "bf16", "tokens": draw.size(1, 4096), "experts": experts}
    topk = min(draw.choice((1, 1, 2, 4, 8)), experts)
    return case | {"topk": topk, "hidden": draw.size(128, 2048, 64), "inter": draw.size(64, 2048, 64)}


def cases(draw: Draw, times: int) -> list[Case]:
    drawn: list[Case] = []
    for _ in range(times):
        for backend in BACKENDS:
            drawn += [_attention(draw, backend, False) for _ in range(50)]
            drawn += [_attention(draw, backend, True) for _ in range(0 if backend == "triton" else 30)]
        drawn += [
            _linear(draw, backend, weights) for backend in WEIGHTS for weights in WEIGHTS[backend] for _ in range(20)
        ]
        drawn += [_rowwise(draw) for _ in range(50)] + [_experts(draw) for _ in range(60)]
        for dtype in ("fp8_e4m3", "int8"):
            for _ in range(30):
                n, k = draw.size(16, 1024, 16), draw.size(32, 1024, 16)
                drawn.append({"op": "gemm", "dtype": dtype, "m": draw.size(17, 1024), "n": n, "k": k})
    return drawn


if __name__ == "__main__":
    print_cases(cases, TIMES, SEEDS)
