"""Device: what one device of a layout has of a step, and the works it builds from that."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.cached import cached_property
from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Work, total
from .. import ops
from .architecture import Architecture, Layer
from .eager import rms_norm as eager_rms_norm
from .layout import Layout
from .model_op import MLP, NORM, ModelOp
from .passes import add_norm, built, norm, quantized
from .phase import DECODE, TRAIN, Formats, Phase


@dataclass(frozen=True)
class Sequences:
    """Sequences of one kind on one device: `tokens` are those whose rows it has, `queries` those of the entire sequence."""

    kind: str
    batch: Array
    tokens: Array
    queries: Array
    context: Array
    logits: Array  # rows of the head per sequence

    @property
    def keys(self) -> Array:
        return self.context + self.queries


@dataclass(frozen=True)
class Device:
    """The busiest device: sequences that do not divide evenly over devices leave it one more."""

    architecture: Architecture
    phase: Phase
    formats: Formats
    layout: Layout
    fused: bool = True
    routing: str = "uniform"

    @cached_property
    def layers(self) -> dict[int, tuple[ModelOp, ...]]:
        """Ops of one layer of each kind, by its place in the architecture, as they are asked for: the stages of a pipeline
        share them, so that each is built and priced once."""
        return {}

    @cached_property
    def groups(self) -> tuple[Sequences, ...]:
        """Sequences of one microbatch; context parallelism splits the tokens of prompts and of training."""
        made = []
        for group in self.phase.groups:
            split = 1 if group.kind == DECODE else self.layout.cp
            tokens, logits = -(-1.0 * group.tokens // split), group.logits_per_sequence
            if group.kind == TRAIN or not self.architecture.causal:
                logits = tokens
            batch = -(-1.0 * group.batch // (self.layout.dp * self.phase.microbatches))
            made.append(Sequences(group.kind, batch, tokens, 1.0 * group.tokens, 1.0 * group.context, logits))
        return tuple(made)

    @cached_property
    def rows(self) -> Array:
        """Rows of its matrix products."""
        return total(group.batch * group.tokens for group in self.groups)

    @property
    def residual_rows(self) -> Array:
        """Rows of its norms and residuals, which sequence parallelism splits."""
        return -(-self.rows // self.layout.tp) if self.layout.sequence else self.rows

    @property
    def hidden(self) -> int:
        return self.architecture.hidden

    @property
    def caches(self) -> bool:
        """Whether keys and values are kept for later steps."""
        return self.architecture.causal and self.phase.kind != TRAIN

    @property
    def width(self) -> float:
        """Bytes of a value that flows between ops."""
        return dtype_row(self.formats.values).bytes

    def linear(self, inputs: Array, outputs: Array, bias: bool = False, rows: Array | None = None, quantize: bool = True) -> Work:  # fmt: skip
        """A product of its rows with a matrix, quantized where those of the layers are."""
        formats, batch = self.formats, self.rows if rows is None else rows
        return built(
            ops.linear, batch=batch, in_features=inputs, out_features=outputs, bias=bias, out_dtype=formats.values,
            dtype=formats.activations if quantize else formats.values,
            weights=formats.weights if quantize else formats.values,
        )  # fmt: skip

    def norm(self, rows: Array | None = None) -> Work:
        """Over the hidden state."""
        rows = self.residual_rows if rows is None else rows
        kind, values = self.architecture.norm, self.formats.values
        if self.fused:
            return norm(kind, rows, self.hidden, values)
        if kind == "rmsnorm":
            return eager_rms_norm(rows, self.hidden, values)
        return built(ops.find(kind), rows=rows, cols=self.hidden, dtype=values)

    def rms_norm(self, rows: Array, cols: Array) -> Work:
        """One kernel, or the eight of `transformers`."""
        values = self.formats.values
        return norm("rmsnorm", rows, cols, values) if self.fused else eager_rms_norm(rows, cols, values)


@dataclass(frozen=True)
class Block:
    """One kind of layer on one device, and the ops it yields."""

    device: Device
    layer: Layer
    place: int

    def op(self, name: str, part: str, work: Work, times: Array = 1.0, weights: Array = 0.0, over: str = "") -> ModelOp:
        return ModelOp(name, part, work, self.layer.count * times, self.place, weights, over)

    def linear(
        self, name: str, part: str, inputs: Array, outputs: Array, bias: bool = False, *,
        rows: Array | None = None, quantize: bool = True,
    ) -> ModelOp:  # fmt: skip
        quantize = quantize and part not in self.device.architecture.unquantized
        work = self.device.linear(inputs, outputs, bias, rows, quantize)
        return self.op(name, part, work, weights=inputs * outputs + bias * outputs)

    def quantize(self, inputs: Array, rows: Array | None = None, part: str = MLP) -> list[ModelOp]:
        """What quantizes the input of a product; nothing where products take it as it is."""
        formats = self.device.formats
        if not formats.quantizes or part in self.device.architecture.unquantized:
            return []
        rows = self.device.rows if rows is None else rows
        return [self.op("quantize", part, quantized(rows, inputs, formats.values, formats.activations))]

    def norms(self) -> list[ModelOp]:
        """Norms over the hidden state and the additions of the two branches of the layer.

        Fused, the norm that follows an addition does it too: two of the norms, or one that adds both branches of a layer
        whose attention and MLP run side by side. The first norm of a model has nothing to add, the final one has: counts are
        of all layers together.
        """
        device, layer = self.device, self.layer
        values, rows, hidden = device.formats.values, device.residual_rows, device.hidden
        kind, learned = device.architecture.norm, device.architecture.norm_values
        if not device.fused:
            listed = [self.op("residual", NORM, built(ops.residual, n=rows * hidden, dtype=values), 2)]
            return [*listed, self.op("norm", NORM, device.norm(), layer.norms, learned)] if layer.norms else listed
        adding = min(1 if layer.parallel else 2, layer.norms)
        listed = []
        if adding:
            work = add_norm(kind, rows, hidden, values, 2 if layer.parallel else 1)
            listed.append(self.op("add and norm", NORM, work, adding, learned))
        else:
            listed.append(self.op("residual", NORM, built(ops.residual, n=rows * hidden, dtype=values), 2))
        if layer.norms > adding:
            listed.append(self.op("norm", NORM, device.norm(), layer.norms - adding, learned))
        return listed
