"""Programs of PyTorch as traces: a module or function with example inputs, on fake tensors, as one GPU would run it.

The Python of the program runs; its tensors have shapes, strides and formats but no data.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.errors import InputError
from ...core.trace import Trace
from ..torch_dispatch import dispatch_mode, require_torch
from .target import Target
from .torch_autocast import Autocast
from .torch_failures import check_inputs, explained
from .torch_functions import Functions, function_mode
from .torch_gpu import Patch, absent_gpu, fake_mode, patched
from .torch_graphs import as_program
from .torch_kernels import gpu_kernels
from .torch_places import Place
from .torch_record import Recorder
from .torch_twins import Substituted, Twins
from .torch_wrappers import AUTOCAST, compiled_note, replica_notes


class Session:
    """The modes under which a program is built and traced; `compiled` as libraries see it within torch.compile."""

    def __init__(self, compiled: bool = False) -> None:
        self.torch = require_torch("tracing a program of PyTorch")
        self.mode = fake_mode()
        self.twins = Twins(self.torch, self.mode)
        self.recorder = Recorder(self.torch, self.twins)
        self.functions = Functions(self.torch, self.twins)
        self.compiled = compiled

    def _compiling(self) -> list[Patch]:
        """Libraries are told that they are compiled; PyTorch's own functions are not, since nothing compiles them.

        Its optimizers would leave numbers of the host in tensors, which operators on lists refuse.
        """
        names = ("is_compiling", "is_dynamo_compiling") if self.compiled else ()
        answer = lambda: not sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")  # noqa: E731
        return [(self.torch.compiler, name, answer) for name in names]

    def _shape_propagation(self) -> list[Patch]:
        """Distributed tensors try each operator on the shapes of all ranks together first, which no device runs."""
        module = sys.modules.get("torch.distributed.tensor._sharding_prop")
        if module is None:
            return []
        owner, name = module.ShardingPropagator, "_propagate_tensor_meta_non_cached"
        propagate = vars(owner)[name]

        def unrecorded(*args: Any, **kwargs: Any) -> Any:
            self.recorder.recording = False
            try:
                return propagate(*args, **kwargs)
            finally:
                self.recorder.recording = True

        return [(owner, name, unrecorded)]

    def at(self, place: Place | None) -> None:
        self.recorder.places.graph_place = place

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
            stack.enter_context(_unlogged("torch._subclasses.fake_tensor"))
            stack.enter_context(patched([*self._shape_propagation(), *self._compiling()]))
            yield


def trace_torch(
    target: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    optimizer: Any = None,
    compiled: bool = False,
    name: str = "",
) -> Trace:
    """What one run of a module or function does. `backward` differentiates the sum of its output; `optimizer` steps then."""
    session = Session(compiled)
    with session.active():
        return _of_target(
            session, Target(target, tuple(args), dict(kwargs or {}), name or _named(target)), backward, optimizer
        )


def trace_built(
    build: Callable[[], Target], *, backward: bool = False, optimizer: Any = None, compiled: bool = False
) -> Trace:
    """What one run of a program does that is built on the traced GPU too: its weights take no memory.

    A program that cannot be built there, because it needs the values of tensors, is built again from those that have data.
    """
    session = Session(compiled)
    session.recorder.recording = False
    with session.active():
        try:
            target = build()
        except InputError as error:
            if error.__cause__ is None:  # no such file or function
                raise
        else:
            return _of_target(session, target, backward, optimizer)
    target = build()
    return trace_torch(
        target.callable,
        target.args,
        target.kwargs,
        backward=backward,
        optimizer=optimizer,
        compiled=compiled,
        name=target.name,
    )


def _of_target(session: Session, target: Target, backward: bool, optimizer: Any) -> Trace:
    program = as_program(session.torch, target.callable, session.at)
    substituted = Substituted(session.torch, session.twins)
    try:
        for item in (program, optimizer, target.args, target.kwargs):
            substituted.visit(item)
        made = traced(session, Target(program, target.args, target.kwargs, target.name), backward, optimizer)
        wrapped = compiled_note(target.callable) if not session.compiled else ()
        return replace(made, notes=(*made.notes, *wrapped)) if wrapped else made
    finally:
        substituted.restore()


def traced(session: Session, target: Target, backward: bool, optimizer: Any) -> Trace:
    """One run of a program that is on the traced GPU."""
    check_inputs(target.callable, target.args, target.kwargs)
    args, kwargs = session.twins.all_in(target.args), session.twins.all_in(dict(target.kwargs))

    def run() -> Any:
        session.recorder = Recorder(session.torch, session.twins)
        with session.recorder.places.following():
            output = target.callable(*args, **kwargs)
            if backward or optimizer is not None:
                differentiate(session, output)
            if optimizer is not None:
                optimizer.step()
                optimizer.zero_grad()
        return output

    try:
        kept = run()  # what the caller gets outlives the run
        if any(item.state for item in session.recorder.places.optimizers.values()):
            kept = None
            kept = run()  # the first step made the states of an optimizer; this one finds them, as all further ones do
    except InputError:
        raise
    except Exception as error:
        raise explained(error) from error
    places, notes = session.recorder.places, dict(session.functions.notes)
    if session.recorder.first_backward <= len(session.recorder.calls):
        notes |= dict.fromkeys(replica_notes(places.roots))
    if places.host_autocast:
        notes[AUTOCAST] = None
    made = session.recorder.trace(target.name, tuple(notes))
    del kept
    return made


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


@contextlib.contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Without the log of a module that writes down errors which are reported anyway."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _named(target: Any) -> str:
    return str(getattr(target, "__name__", "") or type(target).__name__)
