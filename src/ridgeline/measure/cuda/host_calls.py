"""Host time per call of PyTorch: chains of calls on tensors so small that the device is always done first.

    python -m ridgeline.measure.cuda.host_calls [--out FILE.json] [--rounds 40]

A chain is timed by the host's clock from its first call until its last one returns, with the device idle before. It is shorter
than the queue of a stream (1024 launches), so that the host never waits for the device. Chains take turns: a host that slows
down for a while slows all of them.

    add        torch.add with a result that is there: dispatch and launch alone
    allocate   the same with a new result
    view       a view of a tensor: dispatch without a launch
    module     a module that does nothing: what Python takes per module
    linear     a linear layer: module, product with a bias
    norm       a layer norm: module, norm
    attention  scaled dot product attention
    forward    products recorded for a backward pass
    backward   their derivatives, on the thread of autograd
    block      a transformer block of PyTorch modules without gradients, as programs have them: per launching call
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RidgelineError
from ...core.files import write_text
from ...core.statistics import median, quantile
from ..protocol import REAL, Clock
from .device import package

CALLS = 100  # of a chain
BLOCKS = 6  # of the chain of blocks
ROUNDS, WARM_ROUNDS = 40, 3
WIDTH, HEADS, TOKENS = 64, 4, 8  # of the block
BLOCK_CALLS = 12  # of a block that launch: 2 norms, 6 products, attention, GELU and 2 sums; 26 views go with them
BLOCK = "block"
Chain = tuple[int, Callable[[], Any]]  # how many calls, and what makes them


def block(torch: Any, device: str, dtype: Any) -> Any:
    """A transformer block without dropout."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.act, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            y = self.before(x)
            q, k, v = (
                layer(y).view(1, TOKENS, HEADS, -1).transpose(1, 2) for layer in (self.query, self.key, self.value)
            )
            heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(heads.transpose(1, 2).reshape(1, TOKENS, WIDTH))
            return x + self.down(self.act(self.up(self.after(x))))

    return Block().to(device=device, dtype=dtype).eval()


def chains(torch: Any, device: str = "cuda") -> dict[str, Chain]:
    """The chains by name; `backward` is timed within `forward`."""
    dtype = torch.bfloat16
    x, y = (torch.randn(TOKENS, WIDTH, device=device, dtype=dtype) for _ in range(2))
    out, q = torch.empty_like(x), torch.randn(1, HEADS, TOKENS, WIDTH // HEADS, device=device, dtype=dtype)
    nothing, linear, norm = torch.nn.Identity(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH)
    linear, norm = (module.to(device=device, dtype=dtype) for module in (linear, norm))
    blocks = torch.nn.Sequential(*(block(torch, device, dtype) for _ in range(BLOCKS)))
    tokens = x.view(1, TOKENS, WIDTH)

    def times(call: Callable[[], Any]) -> Chain:
        def run() -> None:
            with torch.no_grad():
                for _ in range(CALLS):
                    call()

        return CALLS, run

    def all_blocks() -> None:
        with torch.no_grad():
            blocks(tokens)

    return {
        "add": times(lambda: torch.add(x, y, out=out)),
        "allocate": times(lambda: x + y),
        "view": times(lambda: x.view(-1)),
        "module": times(lambda: nothing(x)),
        "linear": times(lambda: linear(x)),
        "norm": times(lambda: norm(x)),
        "attention": times(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)),
        BLOCK: (BLOCKS * BLOCK_CALLS, all_blocks),
    }


def recorded(torch: Any, device: str = "cuda") -> tuple[Chain, Callable[[Any], Any]]:
    """A chain of calls that are recorded for a backward pass, and that pass."""
    factor = torch.ones(TOKENS, WIDTH, device=device, requires_grad=True)
    start, seed = torch.ones(TOKENS, WIDTH, device=device), torch.ones(TOKENS, WIDTH, device=device)

    def forward() -> Any:
        value = start
        for _ in range(CALLS):
            value = value * factor
        return value

    return (CALLS, forward), lambda value: torch.autograd.grad(value, factor, seed)


class HostCalls:
    """The chains on a device; `round` times each of them once."""

    def __init__(self, torch: Any, device: str = "cuda", clock: Clock = REAL) -> None:
        self.torch, self.device, self.clock = torch, device, clock
        self.chains = chains(torch, device)
        self.recorded = recorded(torch, device)
        for _ in range(WARM_ROUNDS):
            self.round()

    def _timed(self, run: Callable[[], Any]) -> tuple[float, Any]:
        if self.device.startswith("cuda"):
            self.torch.cuda.synchronize()
        began = self.clock.now()
        made = run()
        return self.clock.now() - began, made

    @property
    def block_calls(self) -> int:
        return self.chains[BLOCK][0]

    def block_call(self) -> float:
        """Seconds per launching call of the blocks."""
        count, run = self.chains[BLOCK]
        return self._timed(run)[0] / count

    def backward_call(self) -> float:
        """Seconds per product of a backward pass."""
        (count, forward), backward = self.recorded
        value = forward()
        return self._timed(lambda: backward(value))[0] / count

    def round(self) -> dict[str, float]:
        """Seconds per call of every chain."""
        row = {name: self._timed(run)[0] / count for name, (count, run) in self.chains.items()}
        count, forward = self.recorded[0]
        return {**row, "forward": self._timed(forward)[0] / count, "backward": self.backward_call()}


def typical(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median over rounds of every chain."""
    return {name: median([row[name] for row in rounds]) for name in rounds[0]}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ridgeline.measure.cuda.host_calls", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--out", type=Path, help="JSON file with the median, P10 and P90 of every chain")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    try:
        torch = package("torch")
        if torch is None or not torch.cuda.is_available():
            raise InputError("timing host calls needs torch with a CUDA GPU")
        calls = HostCalls(torch)
        began = time.perf_counter()
        rounds = [calls.round() for _ in range(max(options.rounds, 1))]
        seconds = time.perf_counter() - began
    except RidgelineError as error:
        print(error, file=sys.stderr)
        return 2
    rows = {
        name: {"us": median(values) * 1e6, "p10_us": quantile(values, 0.1) * 1e6, "p90_us": quantile(values, 0.9) * 1e6}
        for name in rounds[0]
        for values in [[row[name] for row in rounds]]
    }
    for name, row in rows.items():
        print(f"{name:10s} {row['us']:7.2f} us per call [{row['p10_us']:.2f}-{row['p90_us']:.2f}]")
    if options.out:
        facts = {"torch": str(torch.__version__), "device": torch.cuda.get_device_name(0), "rounds": len(rounds)}
        write_text(options.out, json.dumps({**facts, "seconds": seconds, "calls": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
