"""Losses: one value per element or row, then a mean or a sum unless none is asked for; and their gradients."""

from __future__ import annotations

from dataclasses import replace

from ...core.timeline import Tensor
from ...core.work import Work
from .arguments import Arguments, Missing, elements
from .building import named, streamed
from .counted import Rule
from .formats import known

NO_REDUCTION = 0  # of torch's `reduction`: none, mean, sum

# Flops per element of a loss and of its gradient, special functions of both; place of the reduction in either.
ELEMENTWISE: dict[str, tuple[float, float, float, int, int]] = {
    "mse_loss": (2.0, 0.0, 3.0, 2, 3),
    "l1_loss": (2.0, 0.0, 2.0, 2, 3),
    "smooth_l1_loss": (5.0, 0.0, 4.0, 2, 3),
    "huber_loss": (5.0, 0.0, 4.0, 2, 3),
    "soft_margin_loss": (5.0, 2.0, 6.0, 2, 3),
    "binary_cross_entropy": (6.0, 2.0, 5.0, 3, 4),
}


def _reduction(arguments: Arguments, place: int) -> int:
    return arguments.integer(place, "reduction", 1)


def elementwise_loss(arguments: Arguments) -> Work:
    """mse_loss(x, target, reduction) and the like; a mean or sum adds one flop per element and writes one value.

    Its kernel goes over what the first one wrote, which a compiler spares.
    """
    each, special, _, place, _ = ELEMENTWISE[arguments.base]
    x, target = arguments.tensor(0), arguments.tensor(1, "target")
    weight = arguments.optional(2) if place == 3 else None
    reduced = _reduction(arguments, place) != NO_REDUCTION
    size = float(elements(x))
    every: tuple[float, str] = (size, x.dtype)
    reads, special = named("x target weight", x, target, weight), special * size
    work = streamed(arguments.base, reads, {"loss": every}, known(x), each * size, special, count=size)
    if not reduced:
        return work
    one: tuple[float, str] = (1.0, x.dtype)
    summed = streamed("sum", {"loss": every}, {"mean": one}, known(x), size, family="reduce", count=size)
    merged = streamed(
        arguments.base, reads, {"loss": one}, known(x), (each + 1) * size, special, family="reduce", count=size
    )
    return replace(merged, kernels=(*work.kernels, *summed.kernels))


def elementwise_backward(arguments: Arguments) -> Work:
    """mse_loss_backward(dloss, x, target, reduction): dx, with one dloss or one per element."""
    name = arguments.base.removesuffix("_backward")
    _, special, each, place, _ = ELEMENTWISE[name]
    dloss, x, target = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2, "target")
    weight = arguments.optional(3) if place == 3 else None
    size = float(elements(x))
    dx = Tensor(x.shape, x.dtype)
    return streamed(
        arguments.base, named("dloss x target weight", dloss, x, target, weight), {"dx": dx}, known(x),
        each * size, special * size / 2, count=size,
    )  # fmt: skip


def _with_logits(arguments: Arguments) -> Work:
    """binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction): (1 - t) x + log(1 + exp(-x)): 6 flops."""
    x, target = arguments.tensor(0), arguments.tensor(1, "target")
    further = named("weight pos_weight", arguments.optional(2), arguments.optional(3))
    reduced = _reduction(arguments, 4) != NO_REDUCTION
    size = float(elements(x))
    write: tuple[float, str] = (1.0 if reduced else size, x.dtype)
    return streamed(
        arguments.base, {"x": x, "target": target, **further}, {"loss": write}, known(x), (6.0 + reduced) * size,
        2.0 * size, count=size,
    )  # fmt: skip


def _nll(arguments: Arguments) -> Work:
    """nll_loss_forward(logp, target, weight, reduction, ignore_index): one log probability per target, added up."""
    logp, target = arguments.tensor(0), arguments.tensor(1, "target")
    rows = float(max(elements(target), 1))
    reduced = _reduction(arguments, 3) != NO_REDUCTION
    write: tuple[float, str] = (2.0 if reduced else rows + 1, logp.dtype)
    taken: tuple[float, str] = (rows, logp.dtype)
    reads = {"logp": taken, **named("target weight", target, arguments.optional(2))}
    images = "2d" in arguments.base
    # of rows that are no images one block takes all
    further = {} if images else {"steps": rows, "blocks": 1.0}
    op = "nll_loss2d" if images else "nll_loss"
    return streamed(
        "nll_loss",
        reads,
        {"loss": write},
        known(logp),
        2.0 * rows,
        family="reduce",
        count=rows,
        op=op,
        like="sum",
        further=further,
    )


def _nll_backward(arguments: Arguments) -> Work:
    """nll_loss_backward(dloss, logp, target, weight, ...): -dloss at each target, zeros elsewhere.

    A call inside fills the zeros, so they are counted only where there are no calls inside.
    """
    dloss, logp, target = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2, "target")
    rows = float(max(elements(target), 1))
    written = elements(logp) + rows if arguments.settings.leaf else rows
    reads = named("dloss target weight", dloss, target, arguments.optional(3))
    return streamed(
        "nll_loss_backward",
        reads,
        {"dx": (float(written), logp.dtype)},
        known(logp),
        rows,
        op=arguments.base,
        count=float(written),
    )


def _margin(arguments: Arguments) -> Work:
    """multi_margin_loss(x, target, ...): 3 flops per element, x and the targets read, one value written."""
    x, target = arguments.tensor(0), arguments.tensor(1, "target")
    return streamed(
        arguments.base, {"x": x, "target": target}, {"loss": (1.0, x.dtype)}, known(x), 3.0 * elements(x), family="reduce",
    )  # fmt: skip


def _margin_backward(arguments: Arguments) -> Work:
    """The gradient of a margin loss: 3 flops per element, x and the targets read, dx written."""
    x, target = arguments.tensor(1), arguments.tensor(2, "target")
    return streamed(
        arguments.base, {"x": x, "target": target}, {"dx": Tensor(x.shape, x.dtype)}, known(x), 3.0 * elements(x)
    )


def _ctc(arguments: Arguments) -> Work:
    """_ctc_loss(log probabilities [time, batch, classes], targets, lengths, ...): alpha of 2 L + 1 states a step.

    Each state is the log of a sum of three: 8 flops, 4 of them special; alpha is written, the probabilities of the states
    read.
    """
    logp, targets = arguments.tensor(0), arguments.tensor(1, "targets")
    lengths = arguments.at(3)
    if not isinstance(lengths, tuple) or not lengths or len(logp.shape) != 3:
        raise Missing("argument 3 (target_lengths) was not recorded")
    longest = max((int(item) for item in lengths if isinstance(item, int | float)), default=0)
    states = float(logp.shape[0] * logp.shape[1] * (2 * longest + 1))
    reads: dict[str, Tensor | tuple[float, str]] = {"logp": (states, logp.dtype), "targets": targets}
    return streamed("ctc_loss", reads, {"alpha": (states, logp.dtype)}, known(logp), 8 * states, 4 * states)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, elementwise_loss),
    **{f"{name}_backward": elementwise_backward for name in ELEMENTWISE},
    "binary_cross_entropy_with_logits": _with_logits,
    "nll_loss_forward": _nll, "nll_loss2d_forward": _nll, "nll_loss_backward": _nll_backward,
    "nll_loss2d_backward": _nll_backward, "multi_margin_loss": _margin, "multilabel_margin_loss_forward": _margin,
    "multi_margin_loss_backward": _margin_backward, "multilabel_margin_loss_backward": _margin_backward,
    "_ctc_loss": _ctc,
}  # fmt: skip
