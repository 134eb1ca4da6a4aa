"""Programs of PyTorch as traces: a module or function with example inputs, on fake tensors, as one GPU would run it.

The Python of the program runs; its tensors have shapes, strides and formats but no data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...core.errors import InputError
from ...core.trace import Trace
from ..torch_dispatch import dispatch_mode, require_torch
from .torch_autocast import Autocast
from .torch_failures import check_inputs, explained
from .torch_functions import Functions, function_mode
from .torch_gpu import absent_gpu, fake_mode
from .torch_kernels import gpu_kernels
from .torch_record import Recorder
from .torch_twins import Substituted, Twins


class Session:
    """The modes under which a program is built and traced."""

    def __init__(self) -> None:
        self.torch = require_torch("tracing a program of PyTorch")
        self.mode = fake_mode()
        self.twins = Twins(self.torch, self.mode)
        self.recorder = Recorder(self.torch, self.twins)
        self.functions = Functions(self.torch, self.twins)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        handle: Callable[..., Any] = lambda func, args, kwargs: self.recorder(func, args, kwargs)  # noqa: E731
        with contextlib.ExitStack() as stack:
            stack.enter_context(absent_gpu(self.torch))
            stack.enter_context(gpu_kernels(self.torch))
            stack.enter_context(Autocast(self.torch).active())
            stack.enter_context(self.torch.compiler.set_stance("force_eager"))
            stack.enter_context(self.mode)
            stack.enter_context(dispatch_mode(handle))
            stack.enter_context(function_mode(self.functions))
            yield


def trace_torch(
    target: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    optimizer: Any = None,
    name: str = "",
) -> Trace:
    """What one run of a module or function does. `backward` differentiates the sum of its output; `optimizer` steps then."""
    session = Session()
    substituted = Substituted(session.torch, session.twins)
    try:
        with session.active():
            for item in (target, optimizer, args, kwargs):
                substituted.visit(item)
            return traced(session, target, args, kwargs or {}, backward, optimizer, name)
    finally:
        substituted.restore()


def traced(
    session: Session,
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    backward: bool,
    optimizer: Any,
    name: str,
) -> Trace:
    """One run of a program that is on the traced GPU."""
    check_inputs(target, args, kwargs)
    given, named = session.twins.all_in(tuple(args)), session.twins.all_in(dict(kwargs))

    def run() -> None:
        session.recorder = Recorder(session.torch, session.twins)
        with session.recorder.places.following():
            output = target(*given, **named)
            if backward or optimizer is not None:
                differentiate(session, output)
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()

    try:
        run()
        if any(item.state for item in session.recorder.places.optimizers.values()):
            run()  # the first step made the states of an optimizer; this one finds them, as all further ones do
    except InputError:
        raise
    except Exception as error:
        raise explained(error) from error
    return session.recorder.trace(name or _named(target), tuple(session.functions.notes))


def differentiate(session: Session, output: Any) -> None:
    """The backward pass from the sum of an output, whose gradient is all ones; from its loss where it has one."""
    from torch.utils._pytree import tree_leaves

    torch, recorder = session.torch, session.recorder
    loss = getattr(output, "loss", None)
    leaves = [loss] if isinstance(loss, torch.Tensor) else tree_leaves(output)
    results = [item for item in leaves if isinstance(item, torch.Tensor) and item.requires_grad]
    recorder.recording = False
    ones = [torch.ones_like(item) for item in results]
    recorder.recording = True
    torch.autograd.backward(results, ones)


def _named(target: Any) -> str:
    return str(getattr(target, "__name__", "") or type(target).__name__)
