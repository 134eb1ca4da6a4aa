"""The backward pass of a forward pass, op by op in reverse.

A product y = x W takes two: dx = dy W^T and dW = x^T dy, each of the flops of the forward one. Attention takes five products where
forward took two (its scores are computed again on chip), so backward is 2 x forward but for attention, 2.5 x. Norms,
activations, embeddings and the loss have gradients of their own (`ops/backward.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Work, work
from .. import ops
from ..ops.elementwise import PROFILE
from .architecture import Experts, Latent
from .blocks import masked
from .device import Block, Device
from .eager import grouped_product
from .experts import experts_read, routed_rows
from .latent import latent_masked
from .layout import PIPELINE
from .model_op import BACKWARD, COMMUNICATION, ModelOp
from .parallel import collective
from .passes import activation_profile, built, streamed

GRADIENT_FLOPS = {"silu": 9.0, "gelu": 18.0, "relu": 1.0, "tanh": 3.0, "sigmoid": 3.0}  # per element, `ops/backward.py`
CONJUGATE = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}

Gradients = Iterator[tuple[str, Work, float]]  # name, work, times per forward call


def backward_ops(device: Device, stage: int, forward: Sequence[ModelOp]) -> Iterator[ModelOp]:
    """Gradients of all forward ops of a stage, those of the last one first."""
    for op in reversed(forward):
        for name, made, times in _gradients(device, op):
            yield replace(op, name=name, work=made, count=op.count * times, weights=0.0, step_pass=BACKWARD)
    if stage > 0:  # to the stage before
        size = device.residual_rows * device.hidden * device.width
        sent = collective("p2p", size, 2, device.formats.values)
        yield ModelOp("p2p gradient of hidden state", COMMUNICATION, sent, over=PIPELINE, step_pass=BACKWARD)


def _gradients(device: Device, op: ModelOp) -> Gradients:
    if op.part == COMMUNICATION:
        yield from _collective(op)
        return
    if op.work.name == "attention" and op.layer is not None:
        block = Block(device, device.architecture.layers[op.layer], op.layer)
        latent = isinstance(block.layer.attention, Latent)
        mask = (latent_masked if latent else masked)(block, device.groups[0])
        yield f"{op.name} backward", mask.backward(device.formats.values), 1.0
        return
    if op.work.name == "grouped_experts" and op.layer is not None:
        yield from _experts(Block(device, device.architecture.layers[op.layer], op.layer))
        return
    rule = RULES.get(op.work.name)
    if rule is not None:
        yield from rule(device, op)


def _linear(device: Device, op: ModelOp) -> Gradients:
    """dx[rows,in] = dy W, dW[out,in] = dy^T x, added to what other microbatches left; a bias sums dy over the rows."""
    shape, formats = op.work.shape, device.formats
    rows, inputs, outputs = shape["batch"], shape["in_features"], shape["out_features"]
    dtype, stored = op.work.dtype, shape.get("weights", op.work.dtype)
    yield f"{op.name} dgrad", built(ops.gemm, m=rows, n=inputs, k=outputs, dtype=dtype, weights=stored, out_dtype=formats.values), 1.0  # fmt: skip
    adds = float(device.phase.microbatches > 1)
    yield f"{op.name} wgrad", built(ops.gemm, m=outputs, n=inputs, k=rows, dtype=dtype, out_dtype=formats.gradients, beta=adds), 1.0  # fmt: skip
    if shape.get("bias"):
        yield f"{op.name} bias grad", built(ops.sum_rows, rows=outputs, cols=rows, dtype=formats.values), 1.0


def _norm(device: Device, op: ModelOp) -> Gradients:
    """The gradient of the norm, one kernel in every style; where it added a residual, the gradient of that is read and added."""
    kind = op.work.name.removeprefix("add_").removesuffix("_eager")
    rows, cols = op.work.shape["rows"], op.work.shape["cols"]
    made = built(ops.find(f"{kind}_backward"), rows=rows, cols=cols, dtype=device.formats.values)
    if op.work.name.startswith("add_"):
        size = rows * cols * device.width
        moves = {**made.moves, ("main", "dresidual", "read"): size}
        counts = {**made.counts, ("vector", made.dtype, "residual"): rows * cols}
        made = replace(made, moves=moves, counts=counts)
    yield f"{op.name} backward", made, 1.0


def _activation(device: Device, op: ModelOp) -> Gradients:
    """Gated, y = f(g) u: du = dy f(g), dg = dy u f'(g); dy, g and u read, both gradients written."""
    name, n, values = op.work.name.removesuffix("_and_mul"), op.work.shape["n"], device.formats.values
    if not op.work.shape.get("gated"):
        yield f"{op.name} backward", built(ops.find(f"{name}_backward"), n=n, dtype=values), 1.0
        return
    each = GRADIENT_FLOPS[name] + PROFILE[name].nominal + 2
    read = {"dy": (n, values, "n"), "x": (2 * n, values, "2 n")}
    made = streamed(
        f"{op.work.name}_backward", "exp", read, {"dx": (2 * n, values, "2 n")}, values, (each * n, f"{each:g} n"),
        PROFILE[name].special * n,
    )  # fmt: skip
    yield f"{op.name} backward", made, 1.0


def _again(device: Device, op: ModelOp) -> Gradients:
    """A gradient that is computed as the op itself: a rotation back, gradients quantized for the next product."""
    yield f"{op.name} backward", op.work, 1.0


def _product(device: Device, op: ModelOp) -> Gradients:
    """y = a b: da = dy b, db = dy a."""
    yield f"{op.name} backward", op.work, 2.0


def _branches(device: Device, op: ModelOp) -> Gradients:
    """Two branches started at the same tensor: their gradients are added."""
    if op.name == "residual":
        yield "residual backward", built(ops.add, n=op.work.shape["n"], dtype=device.formats.values), 1.0


def _embedding(device: Device, op: ModelOp) -> Gradients:
    yield f"{op.name} backward", built(ops.embedding_backward, **op.work.shape, dtype=device.formats.values), 1.0


def _rows(device: Device, op: ModelOp) -> Gradients:
    name = op.work.name.removesuffix("_topk")
    made = built(ops.find(f"{name}_backward"), rows=op.work.shape["rows"], cols=op.work.shape["cols"], dtype=device.formats.values)  # fmt: skip
    yield f"{op.name} backward", made, 1.0


def _grouped(device: Device, op: ModelOp) -> Gradients:
    """Both gradients of grouped products: dx reads every matrix again, dW is written for every one."""
    shape, values = op.work.shape, device.formats.values
    rows, groups, inputs, outputs = (shape[name] for name in ("rows", "groups", "in_features", "out_features"))
    yield f"{op.name} dgrad", grouped_product(rows, groups, outputs, inputs, op.work.dtype, device.formats.weights, values), 1.0  # fmt: skip
    size = groups * inputs * outputs
    wgrad = replace(
        op.work, name="grouped_product_wgrad",
        moves={
            ("main", "x", "read"): op.work.moves["main", "x", "read"],
            ("main", "dy", "read"): op.work.moves["main", "y", "write"],
            ("main", "dW", "write"): size * dtype_row(device.formats.gradients).bytes,
        },
        formulas={},
    )  # fmt: skip
    yield f"{op.name} wgrad", wgrad, 1.0


RULES: dict[str, Callable[[Device, ModelOp], Gradients]] = {
    "linear": _linear,
    **dict.fromkeys(("rmsnorm", "layernorm", "add_rmsnorm", "add_layernorm", "rmsnorm_eager"), _norm),
    **dict.fromkeys(GRADIENT_FLOPS, _activation),
    **dict.fromkeys((f"{name}_and_mul" for name in GRADIENT_FLOPS), _activation),
    **dict.fromkeys(("rotary", "quantize"), _again),
    "grouped_product": _grouped,
    "mul": _product,
    **dict.fromkeys(("residual", "add"), _branches),
    "embedding": _embedding,
    **dict.fromkeys(("softmax", "softmax_topk", "cross_entropy"), _rows),
}


def _experts(block: Block) -> Gradients:
    """Both gradients of every product of the experts: dx reads the weights again, dW is written for every expert held.

    4 (2 + gated) flops per pair, hidden and intermediate element; what forward wrote between the products is read, and the
    gradients in its place written and read.
    """
    device, experts = block.device, block.layer.mlp
    assert isinstance(experts, Experts)
    formats, hidden, inter = device.formats, device.hidden, experts.inter / device.layout.expert_tp
    pairs, up = routed_rows(block), 1 + experts.gated
    matrices, held = (up + 1) * hidden * inter, experts.count / device.layout.ep
    between: dict[str, tuple[Array, str, str]] = {
        "dgate_up": (up * pairs * inter, formats.values, "up pairs inter"),
        "dactivated": (pairs * inter, formats.values, "pairs inter"),
        "dx_pairs": (pairs * hidden, formats.values, "pairs hidden"),
    }
    name = activation_profile(experts.activation)
    each = GRADIENT_FLOPS[name] + PROFILE[name].nominal * experts.gated + 2 * experts.gated
    made = work(
        matrix={"dgrad": (2 * pairs * matrices, "2 pairs matrices"), "wgrad": (2 * pairs * matrices, "2 pairs matrices")},
        vector={"activation": (each * pairs * inter, f"{each:g} pairs inter"), "sum": (pairs * hidden, "pairs hidden")},
        special=PROFILE[name].special * pairs * inter,
        read={
            "dy": (pairs * hidden, formats.values, "pairs hidden"),
            "x": (pairs * hidden, formats.activations, "pairs hidden"),
            "gate_up": (up * pairs * inter, formats.values, "up pairs inter"),
            "activated": (pairs * inter, formats.values, "pairs inter"),
            "weights": (experts_read(block) * matrices, formats.weights, "experts matrices"),
            **between,
        },
        write={"dweights": (held * matrices, formats.gradients, "experts held x matrices"), "dx": (device.rows * hidden, formats.values, "rows hidden"), **between},
        dtype=formats.activations,
        waits={"launch": 5.0},
    )  # fmt: skip
    yield "experts backward", replace(made, name="grouped_experts_backward", family="moe", shape={"pairs": pairs}), 1.0


def _collective(op: ModelOp) -> Gradients:
    """Gradients travel the other way; what sequence parallelism gathered is gathered once more for the gradients of weights."""
    if op.over == PIPELINE or op.name == "all_reduce loss" or (op.layer is None and op.work.name == "all_reduce"):
        return
    name, shape = op.work.name, op.work.shape
    other = CONJUGATE.get(name, name)
    made = collective(other, shape["bytes"], int(shape["ranks"]), op.work.dtype)
    # keys and values pass the ring again, and their gradients with them
    yield f"{op.name.replace(name, other)} backward", made, 2.0 if name == "p2p" else 1.0
    if name == "all_gather":  # of what the gradients of weights or of attention need again
        yield f"{op.name} again", op.work, 1.0
