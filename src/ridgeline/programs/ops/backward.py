"""Backward passes: gradients of attention, norms, softmax, losses, embeddings and activations.

The gradients of a matrix product are two products of their own: of y[m,n] = x[m,k] W[k,n], dx is a gemm of m, k, n and
dW one of k, n, m.
"""

from __future__ import annotations

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label, result
from ...core.families.attention import WINDOW, visible_pairs
from ...core.work import Kernel, Work, work
from .kernels import row_kernel
from .registry import Flag, Format, Op, Size, op
from .scaled_dot_product import check_attention


def _activation(name: str, doc: str, flops: float, special: float, saved: str = "x") -> Op:
    def make(n: Size, dtype: Format = "bf16") -> Work:
        return work(
            vector={name: (flops * n, f"{flops:g} n")},
            special=special * n,
            read={"dy": (n, dtype, "n"), saved: (n, dtype, "n")},
            write={"dx": (n, dtype, "n")},
            dtype=dtype,
        )

    make.__name__, make.__doc__ = name, doc
    return op("stream", "elementwise")(make)


relu_backward = _activation(
    "relu_backward", "dx = dy where x > 0. 1 flop per element; dy and x read, dx written.", 1, 0
)
silu_backward = _activation(
    "silu_backward",
    "dx = dy s (1 + x (1 - s)), s = sigmoid(x). 9 flops per element: sigmoid 4, 1 - s, times x, 1 +, times s, times dy.",
    9, 2,
)  # fmt: skip
gelu_backward = _activation(
    "gelu_backward",
    """dx = dy ((1 + t)/2 + x/2 (1 - t^2) u'), t = tanh(u), u = a (x + b x^3), u' = a (1 + 3 b x^2): 18 flops per element.

    u 5 (x^2, x^3, scale, add, scale), t 1, (1 + t)/2 2, 1 - t^2 2, u' 3, the product 3, the sum 1, times dy 1.
    """,
    18, 1,
)  # fmt: skip
gelu_erf_backward = _activation(
    "gelu_erf_backward",
    """dx = dy ((1 + erf(x/sqrt 2))/2 + x exp(-x^2/2)/sqrt(2 pi)). 11 flops per element: the first term 4, the second 5, sum, times dy.""",
    11, 2,
)  # fmt: skip
sigmoid_backward = _activation("sigmoid_backward", "dx = dy y (1 - y). 3 flops per element; dy and y read, dx written.", 3, 0, "y")  # fmt: skip
tanh_backward = _activation("tanh_backward", "dx = dy (1 - y^2). 3 flops per element; dy and y read, dx written.", 3, 0, "y")  # fmt: skip


@op("rows", "norm")
def softmax_backward(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dx = y (dy - sum over the row of y dy). 4 flops per element less one per row; y and dy read, dx written."""
    n = rows * cols
    return work(
        vector={"y dy": (n, "rows cols"), "sum": (n - rows, "rows (cols - 1)"), "dx": (2 * n, "2 rows cols")},
        read={"y": (n, dtype, "rows cols"), "dy": (n, dtype, "rows cols")},
        write={"dx": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=row_kernel("softmax_backward", rows, cols, dtype, dtype, fresh=2.0),
    )


@op("rows", "norm")
def log_softmax_backward(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dx = dy - exp(y) sum over the row of dy. 4 flops per element less one per row, one of them exp; y and dy read, dx written."""
    n = rows * cols
    return work(
        vector={"sum": (n - rows, "rows (cols - 1)"), "dx": (3 * n, "3 rows cols")},
        special=n,
        read={"y": (n, dtype, "rows cols"), "dy": (n, dtype, "rows cols")},
        write={"dx": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=row_kernel("log_softmax_backward", rows, cols, dtype, dtype, fresh=2.0),
    )


@op("rows", "norm")
def layernorm_backward(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dx = (g - mean g - xhat mean(g xhat)) / sigma with g = dy gamma; dgamma = sum dy xhat, dbeta = sum dy. 13 flops per element.

    xhat 2, g 1, the two sums 3, dx 4, dgamma 2, dbeta 1. dy, x, gamma and the fp32 mean and 1/sigma of each row read.
    """
    n = rows * cols
    statistics = dict.fromkeys(("mean", "rstd"), (rows, "fp32", "rows"))
    return work(
        vector={"layernorm backward": (13 * n, "13 rows cols")},
        read={
            "dy": (n, dtype, "rows cols"),
            "x": (n, dtype, "rows cols"),
            "gamma": (cols, dtype, "cols"),
            **statistics,
        },
        write={"dx": (n, dtype, "rows cols"), "dgamma": (cols, dtype, "cols"), "dbeta": (cols, dtype, "cols")},
        dtype=dtype,
        kernels=row_kernel("layernorm_backward", rows, cols, dtype, dtype, fresh=2.0),
    )


@op("rows", "norm")
def rmsnorm_backward(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dx = (g - xhat mean(g xhat)) / rms with g = dy gamma; dgamma = sum dy xhat. 9 flops per element.

    xhat 1, g 1, the sum 2, dx 3, dgamma 2. dy, x, gamma and the fp32 1/rms of each row read.
    """
    n = rows * cols
    return work(
        vector={"rmsnorm backward": (9 * n, "9 rows cols")},
        read={
            "dy": (n, dtype, "rows cols"),
            "x": (n, dtype, "rows cols"),
            "gamma": (cols, dtype, "cols"),
            "rstd": (rows, "fp32", "rows"),
        },
        write={"dx": (n, dtype, "rows cols"), "dgamma": (cols, dtype, "cols")},
        dtype=dtype,
        kernels=row_kernel("rmsnorm_backward", rows, cols, dtype, dtype, fresh=2.0),
    )


@op("rows", "norm")
def cross_entropy_backward(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dx = (exp(log p) - 1 at the target) dloss. 2 flops per element and 1 per row.

    The saved log probabilities, a 64-bit target and an fp32 dloss per row read, dx written.
    """
    n = rows * cols
    return work(
        vector={"exp and scale": (2 * n, "2 rows cols"), "target": (rows, "rows")},
        special=n,
        read={"logp": (n, dtype, "rows cols"), "target": (rows, "fp64", "rows"), "dloss": (rows, "fp32", "rows")},
        write={"dx": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=row_kernel("cross_entropy_backward", rows, cols, dtype, dtype),
    )


@op("gather", "embedding")
def embedding_backward(rows: Size, vocab: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """dtable[index] += dy: rows cols additions. dy and one 64-bit index per row read, the dense gradient written once."""
    sizes = {"rows": rows, "cols": cols, "x": dtype_row(dtype).bytes, "y": dtype_row(dtype).bytes}
    # written per row of dy: the whole table, zeros included
    sizes |= {"per_row": vocab * cols / rows, "fresh": 1.0}
    return work(
        vector={"add": (rows * cols, "rows cols")},
        read={"dy": (rows * cols, dtype, "rows cols"), "index": (rows, "fp64", "rows")},
        write={"dtable": (vocab * cols, dtype, "vocab cols")},
        dtype=dtype,
        kernels=(Kernel("rows", sizes, "embedding_backward", label(dtype)),),
    )


@op("attention", "attention", grows="seq_q")
def attention_backward(
    batch: Size,
    heads: Size,
    seq_q: Size,
    head_dim: Size,
    seq_kv: Size | None = None,
    kv_heads: Size | None = None,
    causal: Flag = False,
    window: Size | None = None,
    dtype: Format = "bf16",
) -> Work:
    """dQ, dK and dV of flash attention: five products of 2 D flops for each visible pair, and 6 for the softmax.

    The scores again, dP = dO V^T, dV = P^T dO, dQ = dS K, dK = dS^T Q; per pair exp(S - lse) 2, P (dP - delta) 2, scales 2;
    delta = sum dO O costs 2 D per query. Q, K, V, O, dO and the fp32 lse of each query read, dQ, dK and dV written.
    """
    keys = seq_q if seq_kv is None else seq_kv
    shared = heads if kv_heads is None else kv_heads
    check_attention(heads, shared, seq_q, keys, causal, window)
    pairs = batch * heads * visible_pairs(seq_q, keys, causal, window)
    visible = keys if window is None else np.minimum(keys, seq_q + window - 1)
    queries = batch * heads * seq_q
    q, k, out = queries * head_dim, batch * shared * visible * head_dim, result(dtype).name
    q_text = "batch heads Sq D"
    k_text = f"batch kv_heads {'Skv' if window is None else 'min(Skv, Sq + window - 1)'} D"
    sizes = {"batch": batch, "heads": heads, "shared": shared, "q": seq_q, "kv": keys, "d": head_dim, "causal": causal}
    sizes |= {"x": dtype_row(dtype).bytes, "stored": dtype_row(dtype).bytes}
    if window is not None:
        sizes[WINDOW] = window
    products = ("S = Q K^T", "dP = dO V^T", "dV = P^T dO", "dQ = dS K", "dK = dS^T Q")
    return work(
        matrix=dict.fromkeys(products, (2 * head_dim * pairs, "2 D pairs")),
        vector={"softmax": (6 * pairs, "6 pairs"), "delta": (2 * q, "2 batch heads Sq D")},
        special=pairs,
        read={
            **dict.fromkeys(("Q", "O", "dO"), (q, dtype, q_text)),
            **dict.fromkeys(("K", "V"), (k, dtype, k_text)),
            "lse": (queries, "fp32", "batch heads Sq"),
        },
        write={"dQ": (q, out, q_text), "dK": (k, out, k_text), "dV": (k, out, k_text)},
        dtype=dtype,
        kernels=(Kernel("attention_backward", sizes, dtype=label(dtype)),),
    )
