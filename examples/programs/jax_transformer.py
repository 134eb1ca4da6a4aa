"""A decoder-only transformer in plain JAX: prefill, and a training step with AdamW.

    ridgeline trace examples/programs/jax_transformer.py:train --on h200-sxm --mode fused

The targets describe their arrays by shape and format, so that nothing is allocated whatever the size of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
from jax import numpy as jnp

Tree = dict[str, Any]


class Sizes(NamedTuple):
    layers: int = 16
    width: int = 2048
    heads: int = 32
    kv_heads: int = 8
    inner: int = 8192
    vocabulary: int = 128256
    batch: int = 4
    sequence: int = 2048

    @property
    def head(self) -> int:
        return self.width // self.heads


LLAMA_1B = Sizes()  # of Llama-3.2-1B


def shapes(sizes: Sizes, dtype: Any = jnp.bfloat16) -> Tree:
    """The weights, those of all layers stacked so that one scan runs them."""

    def array(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    layers, width, inner, kv = sizes.layers, sizes.width, sizes.inner, sizes.kv_heads * sizes.head
    return {
        "embedding": array(sizes.vocabulary, width),
        "norm": array(width),
        "layers": {
            "attention_norm": array(layers, width),
            "query": array(layers, width, width),
            "key": array(layers, width, kv),
            "value": array(layers, width, kv),
            "out": array(layers, width, width),
            "mlp_norm": array(layers, width),
            "gate": array(layers, width, inner),
            "up": array(layers, width, inner),
            "down": array(layers, inner, width),
        },
    }


def rmsnorm(x: jax.Array, weight: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)
    return (wide * scale).astype(x.dtype) * weight


def rotate(x: jax.Array) -> jax.Array:
    """Rotary position embedding over [batch, sequence, heads, head]."""
    half = x.shape[-1] // 2
    frequencies = 1.0 / 10000.0 ** (jnp.arange(half, dtype=jnp.float32) / half)
    angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * frequencies
    cosine, sine = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    left, right = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    turned = jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)
    return turned.astype(x.dtype)


def layer(sizes: Sizes, attention: str, x: jax.Array, weights: Tree) -> tuple[jax.Array, None]:
    batch, sequence, _ = x.shape
    with jax.named_scope("attention"):
        y = rmsnorm(x, weights["attention_norm"])
        query = (y @ weights["query"]).reshape(batch, sequence, sizes.heads, sizes.head)
        key = (y @ weights["key"]).reshape(batch, sequence, sizes.kv_heads, sizes.head)
        value = (y @ weights["value"]).reshape(batch, sequence, sizes.kv_heads, sizes.head)
        mixed = jax.nn.dot_product_attention(
            rotate(query), rotate(key), value, is_causal=True, implementation=attention
        )
        x = x + mixed.reshape(x.shape) @ weights["out"]
    with jax.named_scope("mlp"):
        y = rmsnorm(x, weights["mlp_norm"])
        x = x + (jax.nn.silu(y @ weights["gate"]) * (y @ weights["up"])) @ weights["down"]
    return x, None


def logits_of(sizes: Sizes, attention: str, params: Tree, tokens: jax.Array) -> jax.Array:
    with jax.named_scope("embedding"):
        x = params["embedding"][tokens]
    body = jax.checkpoint(partial(layer, sizes, attention))  # the backward pass computes each layer again
    x, _ = jax.lax.scan(body, x, params["layers"])
    with jax.named_scope("head"):
        return rmsnorm(x, params["norm"]) @ params["embedding"].T


def loss_of(sizes: Sizes, attention: str, params: Tree, tokens: jax.Array) -> jax.Array:
    logits = logits_of(sizes, attention, params, tokens[:, :-1])
    with jax.named_scope("loss"):
        likelihood = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(likelihood, tokens[:, 1:, None], axis=-1))


def adamw(weight: jax.Array, gradient: jax.Array, mean: jax.Array, square: jax.Array) -> tuple[jax.Array, ...]:
    """One update; bias correction is left to the learning rate."""
    wide = gradient.astype(jnp.float32)
    mean, square = 0.9 * mean + 0.1 * wide, 0.95 * square + 0.05 * wide * wide
    update = mean / (jnp.sqrt(square) + 1e-8) + 0.1 * weight.astype(jnp.float32)
    return (weight.astype(jnp.float32) - 3e-4 * update).astype(weight.dtype), mean, square


def train_step(
    sizes: Sizes, attention: str, params: Tree, state: tuple[Tree, Tree], tokens: jax.Array
) -> tuple[Tree, tuple[Tree, Tree], jax.Array]:
    loss, gradients = jax.value_and_grad(partial(loss_of, sizes, attention))(params, tokens)
    updated = jax.tree.map(adamw, params, gradients, *state)
    new, mean, square = (jax.tree.map(lambda _, rows, at=at: rows[at], params, updated) for at in range(3))
    return new, (mean, square), loss


def prefill(sizes: Sizes = LLAMA_1B) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    tokens = jax.ShapeDtypeStruct((sizes.batch, sizes.sequence), jnp.int32)
    return jax.jit(partial(logits_of, sizes, "cudnn")), (shapes(sizes), tokens)


def train(sizes: Sizes = LLAMA_1B) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    tokens = jax.ShapeDtypeStruct((sizes.batch, sizes.sequence + 1), jnp.int32)
    state = (shapes(sizes, jnp.float32), shapes(sizes, jnp.float32))
    return jax.jit(partial(train_step, sizes, "cudnn")), (shapes(sizes), state, tokens)
