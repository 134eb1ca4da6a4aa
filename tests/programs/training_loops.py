"""Plain loops of backward passes, optimizers and selections, each with a tally of what it does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from tally import Num, Row, Tally, each, visible

FORMULAS: dict[str, Callable[[Num, Num], float]] = {
    "silu_backward": lambda dy, x: (lambda s: dy * (s * (1.0 + x * (1.0 - s))))(1.0 / (1.0 + (-x).exp())),
    "gelu_erf_backward": lambda dy, x: (
        dy * ((1.0 + (x * 0.7071067811865476).erf()) * 0.5 + x * ((x * x * -0.5).exp() * 0.3989422804))
    ),
    "sigmoid_backward": lambda dy, y: dy * (y * (1.0 - y)),
    "tanh_backward": lambda dy, y: dy * (1.0 - y * y),
}


def gelu_gradient(dy: Num, x: Num) -> float:
    square = x * x
    t = (0.7978845608 * (x + 0.044715 * (square * x))).tanh()
    left = (1.0 + t) * 0.5
    slope = 0.7978845608 * (1.0 + 0.134145 * square)
    return dy * (left + x * 0.5 * ((1.0 - t * t) * slope))


def activation(name: str, saved: str = "x") -> Callable[..., None]:
    def loop(t: Tally, n: int, **_: Any) -> None:
        for i in range(n):
            t.load("dy", i)
            t.load(saved, i)
            dy, x = Num(0.3, t), Num(0.1 * i - 0.3, t)
            if name == "relu_backward":
                t.do("select")
            else:
                (gelu_gradient if name == "gelu_backward" else FORMULAS[name])(dy, x)
            t.store("dx", i)

    return loop


def softmax_backward(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        for j in range(cols):
            t.load("y", i, j)
            t.load("dy", i, j)
            t.do("mul", *(["add"] if j else []))
            t.do("sub", "mul")
            t.store("dx", i, j)


def log_softmax_backward(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        for j in range(cols):
            t.load("y", i, j)
            t.load("dy", i, j)
            t.do(*(["add"] if j else []))
            t.do("exp", "mul", "sub")
            t.store("dx", i, j)


def layernorm_backward(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        t.load("mean", i)
        t.load("rstd", i)
        for j in range(cols):
            for tensor in ("dy", "x"):
                t.load(tensor, i, j)
            t.load("gamma", j)
            t.do("sub", "mul")  # xhat
            t.do("mul")  # g = dy gamma
            t.do("add", "mul", "add")  # sums of g and of g xhat
            t.do("sub", "mul", "sub", "mul")  # (g - a - xhat b) / sigma
            t.do("mul", "add", "add")  # dgamma, dbeta
            t.store("dx", i, j)
            t.store("dgamma", j)
            t.store("dbeta", j)


def rmsnorm_backward(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        t.load("rstd", i)
        for j in range(cols):
            for tensor in ("dy", "x"):
                t.load(tensor, i, j)
            t.load("gamma", j)
            t.do("mul", "mul")  # xhat, g = dy gamma
            t.do("mul", "add")  # sum of g xhat
            t.do("mul", "sub", "mul")  # (g - xhat a) / rms
            t.do("mul", "add")  # dgamma
            t.store("dx", i, j)
            t.store("dgamma", j)


def cross_entropy_backward(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        t.load("target", i)
        t.load("dloss", i)
        t.do("sub")  # 1 at the target
        for j in range(cols):
            t.load("logp", i, j)
            t.do("exp", "mul")
            t.store("dx", i, j)


def embedding_backward(t: Tally, rows: int, vocab: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        t.load("index", i)
        for j in range(cols):
            t.load("dy", i, j)
            t.do("add")
    for i, j in product(range(vocab), range(cols)):
        t.store("dtable", i, j)


def attention_backward(t: Tally, batch: int, heads: int, seq_q: int, head_dim: int, seq_kv: int | None = None,
                       kv_heads: int | None = None, causal: bool = False, window: int | None = None, **_: Any) -> None:  # fmt: skip
    keys = seq_q if seq_kv is None else seq_kv
    shared = heads // (kv_heads or heads)
    for b, h, i in product(range(batch), range(heads), range(seq_q)):
        t.load("lse", b, h, i)
        for d in range(head_dim):
            for tensor in ("Q", "O", "dO"):
                t.load(tensor, b, h, i, d)
            t.do("mul", "add")  # delta = sum dO O
            t.store("dQ", b, h, i, d)
        for j in range(keys):
            if not visible(i, j, seq_q, keys, causal, window):
                continue
            for d in range(head_dim):
                for _product in ("Q K^T", "dO V^T", "P^T dO", "dS K", "dS^T Q"):
                    t.fma()
                for tensor, way in (("K", t.load), ("V", t.load), ("dK", t.store), ("dV", t.store)):
                    way(tensor, b, h // shared, j, d)
            t.do("sub", "exp", "sub", "mul")  # P = exp(S - lse), dS = P (dP - delta)
            t.do("scale", "scale")  # of the scores and of their gradient


def adamw(t: Tally, n: int, variant: str = "fused", **_: Any) -> None:
    for i in range(n):
        t.do("mul")  # decay
        t.do("sub", "mul", "add")  # m
        t.do("mul", "mul", "mul", "add")  # v
        t.do("sqrt", "mul", "add")  # denominator, by the reciprocal of the correction
        t.do("div", "mul", "sub")  # step
        if variant == "fused":
            for tensor in "pgmv":
                t.load(tensor, i)
            for tensor in "pmv":
                t.store(tensor, i)
    if variant == "foreach":
        passes = ("p>p", "mg>m", "v>v", "vg>v", "v>d", "d>d", "d>d", "pmd>p")
        for reads, writes in (each_pass.split(">") for each_pass in passes):
            for tensor in reads:
                t.fetch(tensor, n)
            for tensor in writes:
                t.fetch(tensor, n, way="write")


def sgd(t: Tally, n: int, momentum: bool = False, **_: Any) -> None:
    for i in range(n):
        t.load("p", i)
        t.load("g", i)
        if momentum:
            t.load("v", i)
            t.do("mul", "add")
            t.store("v", i)
        t.do("mul", "sub")
        t.store("p", i)


def fill(t: Tally, n: int, **_: Any) -> None:
    for i in range(n):
        t.store("x", i)


def sort(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i, j)
        t.store("values", i, j)
        t.store("places", i, j)


def topk(t: Tally, rows: int, cols: int, k: int, **_: Any) -> None:
    for i in range(rows):
        for j in range(cols):
            t.load("x", i, j)
        for j in range(k):
            t.store("values", i, j)
            t.store("places", i, j)


def cumsum(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i, j)
        t.do(*(["add"] if j else []))
        t.store("y", i, j)


def conv_transpose2d(t: Tally, batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int = 2, stride: int = 2,
                     padding: int = 0, groups: int = 1, dilation: int = 1, **_: Any) -> None:  # fmt: skip
    """Every input pixel times every tap; those that fall on the padding are computed as well, as convolutions count."""
    ho = (h - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
    wo = (w - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
    inner = c_out // groups
    for b, ci, y, x in product(range(batch), range(c_in), range(h), range(w)):
        t.load("x", b, ci, y, x)
        for co, ky, kx in product(range(inner), range(kernel), range(kernel)):
            t.load("weights", ci, co, ky, kx)
            t.fma()
    for b, co, y, x in product(range(batch), range(c_out), range(ho), range(wo)):
        t.store("y", b, co, y, x)


def training_rows() -> list[Row]:
    found: list[Row] = []

    def row(op: str, loop: Callable[..., None], widths: dict[str, float], launches: int = 1, **values: Any) -> None:
        found.append(Row(op, values, loop, widths, launches))

    for name, saved in (("relu_backward", "x"), ("gelu_backward", "x"), ("gelu_erf_backward", "x"), ("silu_backward", "x"), ("sigmoid_backward", "y"), ("tanh_backward", "y")):  # fmt: skip
        row(name, activation(name, saved), each(2, f"dy dx {saved}"), n=5)
    row("softmax_backward", softmax_backward, each(4, "y dy dx"), rows=3, cols=5, dtype="fp32")
    row("log_softmax_backward", log_softmax_backward, each(2, "y dy dx"), rows=3, cols=5)
    statistics = each(4, "mean rstd")
    row("layernorm_backward", layernorm_backward, each(2, "dy x gamma dx dgamma dbeta") | statistics, rows=3, cols=5)
    row("rmsnorm_backward", rmsnorm_backward, each(2, "dy x gamma dx dgamma") | statistics, rows=3, cols=5)
    losses = {"logp": 2.0, "dx": 2.0, "target": 8.0, "dloss": 4.0}
    row("cross_entropy_backward", cross_entropy_backward, losses, rows=3, cols=5)
    row("embedding_backward", embedding_backward, {"dy": 2, "dtable": 2, "index": 8}, rows=4, vocab=7, cols=3)
    tensors = each(2, "Q K V O dO dQ dK dV") | {"lse": 4.0}
    row("attention_backward", attention_backward, tensors, batch=2, heads=2, seq_q=5, head_dim=3)
    row("attention_backward", attention_backward, tensors, batch=1, heads=4, seq_q=5, head_dim=2, kv_heads=2, causal=True)  # fmt: skip
    row("attention_backward", attention_backward, tensors, batch=1, heads=2, seq_q=3, head_dim=2, seq_kv=7, causal=True, window=4)  # fmt: skip
    row("adamw", adamw, each(4, "p g m v"), n=5)
    row("adamw", adamw, each(2, "p g m v d"), 8, n=5, dtype="bf16", variant="foreach")
    row("sgd", sgd, each(4, "p g v"), n=5)
    row("sgd", sgd, each(4, "p g v"), n=5, momentum=True)
    row("fill", fill, each(2, "x"), n=5)
    row("sort", sort, {"x": 4, "values": 4, "places": 8}, rows=3, cols=5)
    row("topk", topk, {"x": 2, "values": 2, "places": 8}, rows=3, cols=5, k=2)
    row("cumsum", cumsum, each(2, "x y"), rows=3, cols=5)
    row("conv_transpose2d", conv_transpose2d, each(2, "x weights y"), batch=2, c_in=3, c_out=4, h=3, w=2)
    row("conv_transpose2d", conv_transpose2d, each(2, "x weights y"), batch=1, c_in=4, c_out=6, h=4, w=4, kernel=4, stride=2, padding=1, groups=2)  # fmt: skip
    return found
