"""Cases of attention with few heads, narrow heads and short sequences, of attention in fp32, of small batched products and small convolutions.

    python benchmarks/small_layers.py calibration > cases.csv
    python benchmarks/small_layers.py test > cases.csv            never to be fitted to

Windows of 49 tokens, prompts of 77, heads of 32 elements, time series, images of 28x28 in batches of one: scripts of students and
researchers are full of them, and other tables begin above. Attention of a script that names no format is fp32.
Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

from drawn import print_cases

from ridgeline.measure.cuda.draw import Case, Draw

TIMES = {"calibration": 5, "test": 1}
SEEDS = {"calibration": 8410, "test": 8420}
HEADS, HEAD_DIMS = (1, 2, 3, 4, 6, 8, 12, 16), (8, 16, 24, 32, 32, 40, 48, 64, 64, 72, 96, 128, 160, 192)
TOKENS, KEYS, MAX_SCORES = (4, 2048), (16, 77, 77, 128, 196, 257), 1 << 33
FORMATS, WIDE = ("bf16", "fp16", "fp32", "tf32"), "fp32"


def _heads(draw: Draw, dtype: str) -> Case:
    heads = draw.choice(HEADS)
    return {"dtype": dtype, "heads": heads, "kv_heads": heads, "head_dim": draw.choice(HEAD_DIMS)}


def _attention(draw: Draw, dtype: str, op: str, longest: int) -> Case:
    """Each query with as many keys, causal or not, or with the keys of a prompt."""
    seq = draw.size(TOKENS[0], longest)
    keys = draw.choice(KEYS) if draw.chance(0.2) else seq
    case: Case = {"op": op, "batch": draw.size(1, 256), **_heads(draw, dtype), "seq_q": seq, "seq_kv": keys}
    while case["batch"] * case["heads"] * seq * keys > MAX_SCORES:
        case["batch"] //= 2
    return case | {"causal": keys == seq and draw.chance(0.5)}


def _decode(draw: Draw, dtype: str) -> Case:
    keys = draw.size(1, 8192)
    case: Case = {"op": "attention", "batch": draw.size(1, 64), **_heads(draw, dtype), "seq_q": 1, "seq_kv": keys}
    return case | {"causal": False}


def _bmm(draw: Draw, dtype: str) -> Case:
    step = draw.choice((1, 2, 8, 16))
    m, n, k = (draw.size(1, 256, step) for _ in range(3))
    return {"op": "bmm", "dtype": dtype, "batch": draw.size(2, 1024), "m": m, "n": n, "k": k}


def _convolution(draw: Draw, dtype: str, op: str) -> Case:
    step = draw.choice((1, 2, 8, 16))
    c_in = draw.choice((1, 3)) if draw.chance(0.2) else draw.size(1, 128, step)
    side, kernel = draw.size(4, 64), draw.choice((1, 3, 3, 5))
    case: Case = {"op": op, "dtype": dtype, "batch": draw.size(1, 64), "c_in": c_in, "c_out": draw.size(1, 128, step)}
    case |= {"h": side, "w": side, "kernel": kernel, "stride": draw.choice((1, 1, 2)), "padding": kernel // 2}
    return case | {"layout": "nhwc" if draw.chance(0.3) else "nchw"}


def cases(draw: Draw, times: int) -> list[Case]:
    drawn: list[Case] = []
    for dtype in FORMATS:
        if dtype != "tf32":
            longest = 8192 if dtype == WIDE else TOKENS[1]
            for _ in range((100 if dtype == WIDE else 60) * times):
                drawn.append(_attention(draw, dtype, "attention", longest))
                drawn.append(_attention(draw, dtype, "attention_backward", longest))
            drawn += [_decode(draw, dtype) for _ in range(60 * times)]
        drawn += [_bmm(draw, dtype) for _ in range(60 * times)]
        for op in ("conv2d", "conv2d_dgrad", "conv2d_wgrad"):
            drawn += [_convolution(draw, dtype, op) for _ in range(50 * times)]
    return drawn


if __name__ == "__main__":
    print_cases(cases, TIMES, SEEDS)
