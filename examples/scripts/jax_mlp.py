"""Train a multilayer perceptron in JAX on random data."""

import argparse
from itertools import pairwise

import jax
from jax import numpy as jnp


def predict(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array) -> jax.Array:
    for weight, bias in layers[:-1]:
        x = jax.nn.gelu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def loss_of(layers: list[tuple[jax.Array, jax.Array]], x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((predict(layers, x) - y) ** 2)


@jax.jit
def train_step(
    layers: list[tuple[jax.Array, jax.Array]], x: jax.Array, y: jax.Array
) -> tuple[list[tuple[jax.Array, jax.Array]], jax.Array]:
    loss, gradients = jax.value_and_grad(loss_of)(layers, x, y)
    return jax.tree.map(lambda value, gradient: value - 0.01 * gradient, layers, gradients), loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a model for a laptop")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    sizes, batch = ([64, 256, 256, 16], 128) if args.small else ([1024, 8192, 8192, 1024], 8192)
    dtype = jnp.float32 if args.small else jnp.bfloat16
    key = jax.random.key(0)
    layers = [(jax.random.normal(key, (m, n), dtype) / m**0.5, jnp.zeros(n, dtype)) for m, n in pairwise(sizes)]
    x, y = jax.random.normal(key, (batch, sizes[0]), dtype), jax.random.normal(key, (batch, sizes[-1]), dtype)
    loss = jnp.zeros(())
    for _ in range(args.steps):
        layers, loss = train_step(layers, x, y)
    print(f"last loss {float(loss):.3f}")


if __name__ == "__main__":
    main()
