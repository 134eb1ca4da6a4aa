"""The recorder of a traced program: every operator call with its work, its place and the buffers it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.timeline import BACKWARD, COMMUNICATION, FORWARD, OPTIMIZER, Call, Site, Tensor
from ...core.trace import FREE, HOST, UNKNOWN, VIEW, WORK, Access, Trace, TracedOp
from ...core.work import READ, WRITE
from ..aten import Counted, Settings, count
from ..aten.arguments import base_name
from ..aten.collective import is_collective
from ..aten.coverage import tensor_bytes
from ..torch_dispatch import MAX_CALLS, flat, placed, results, tf32_flags
from .sorts import sort_of
from .torch_buffers import GRADIENT, PARAMETER, STATE, Storages, fitted, stored_bytes
from .torch_gpu import seen_device
from .torch_kernels import fake_results
from .torch_places import Places

# Operators in place that overwrite their tensor without reading it.
_OVERWRITING = "copy_ fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_ log_normal_ cauchy_ geometric_"
OVERWRITING = frozenset(_OVERWRITING.split())


class Recorder:
    def __init__(self, torch: Any, twin: Any) -> None:
        self.torch, self.twin = torch, twin
        self.places, self.storages = Places(torch), Storages()
        self.recording = True
        self.first_backward = MAX_CALLS  # the call that begins the backward pass
        self._fakes = fake_results(torch)
        self._convolution = torch.ops.aten.convolution.default
        self.ops: list[TracedOp] = []
        self.calls: list[int] = []
        self.entered: list[int] = []  # per call: modules called before it
        self.reads: list[tuple[Access, ...]] = []
        self.writes: list[tuple[Access, ...]] = []
        self._sites: dict[Site, int] = {}
        self._counts: dict[tuple[Call, int], Counted] = {}
        self._device_op = torch.ops.prim.device.default
        self._meta = frozenset(("prim", "profiler"))
        from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor

        self._fake, self._unknown = FakeTensor, DataDependentOutputException

    def __call__(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """One operator call as the dispatcher hands it over."""
        if func is self._device_op:
            return seen_device(self.torch, args[0])
        if func.namespace in self._meta or not self.recording:
            return func(*args, **kwargs)
        args = self._faked(args)
        phase, (modules, source) = self.places.here()
        if phase == BACKWARD and self.first_backward > len(self.calls):
            self.first_backward = len(self.calls)
        devices: set[str] = set()
        given = placed(self.torch, func, args, kwargs, devices)  # before an operator in place changes them
        self.storages.now = len(self.calls)
        read, written = self._touched(func, args, kwargs)
        try:
            result = self._fakes.get(func, func)(*args, **kwargs)
        except self._unknown:  # the host waits for a number all the same
            if func is self.torch.ops.aten._local_scalar_dense.default:
                waits = Counted(HOST if "cuda" in devices else FREE)
                self._enter(Site(Call(str(func._schema.name), given), phase, modules, source), waits)
                self._account(waits, [], [])
            raise
        result = self._laid_out(func, args, result)
        made = [item for item in flat((result,)) if isinstance(item, self.torch.Tensor)]
        call = Call(str(func._schema.name), given, results(self.torch, result))
        on_host = "cuda" not in devices and not any(item.device.type == "cuda" for item in made)
        counted = Counted(FREE) if on_host else self._counted(call, args)
        if is_collective(call.name):
            phase = COMMUNICATION
        in_place = self._in_place(func, args, given, read) if phase == BACKWARD else ""
        if in_place:
            call = replace(call, name=in_place)
            counted = self._counted(call, args)
            self.storages.continued(result, read[0][0])
        self._enter(Site(call, phase, modules, source), counted)
        born = [self.storages.of(item, born=len(self.calls) - 1) for item in made]
        self._account(counted, read, [*written, *zip(born, map(stored_bytes, made), strict=True)])
        if func is self._convolution and args[2] is not None:
            self._add_bias(Site(call, phase, modules, source), args[2], result)
        self.storages.now = len(self.calls)
        return result

    def _laid_out(self, func: Any, args: Any, result: Any) -> Any:
        """Results of a convolution in the layout that cuDNN gives them, where fake ones are contiguous.

        That is channels-last where the input or the weight is, and the format is not fp64.
        """
        torch, aten = self.torch, self.torch.ops.aten
        backward = func is aten.convolution_backward.default
        if not backward and func is not self._convolution:
            return result
        operands = args[1:3] if backward else args[:2]
        layouts = {torch._prims_common.suggest_memory_format(item) for item in operands} - {torch.contiguous_format}
        if not layouts or operands[0].dtype == torch.float64:
            return result
        layout = layouts.pop()
        if not backward:
            return torch.empty_like(result, memory_format=layout)
        grads = [torch.empty_like(item, memory_format=layout) if item is not None else None for item in result[:2]]
        return (*grads, result[2])

    def _in_place(self, func: Any, args: Any, given: tuple[Any, ...], read: list[Access]) -> str:
        """The operator in place that autograd calls unless its tensors are fake; empty where it calls this one."""
        if func is self.torch.ops.aten.index_put.default and given[3] is True:
            return "aten::_index_put_impl_"
        return "aten::add_" if self._sums_gradients(func, args, read) else ""

    def _sums_gradients(self, func: Any, args: Any, read: list[Access]) -> bool:
        """Whether autograd adds two gradients of one tensor, which it does in place unless its tensors are fake."""
        if func is not self.torch.ops.aten.add.Tensor or len(read) != 2 or not isinstance(args[1], self.torch.Tensor):
            return False
        made_here = all(self.storages.born[index] >= self.first_backward for index, _ in read)
        return (
            (made_here or self.places.accumulates())
            and args[0].shape == args[1].shape
            and args[0].dtype == args[1].dtype
        )

    def _add_bias(self, site: Site, bias: Any, result: Any) -> None:
        """The bias of a convolution, which GPUs add in a kernel of its own."""
        row = Tensor((1, bias.shape[0], *[1] * (result.dim() - 2)), str(bias.dtype).removeprefix("torch."))
        call = Call("aten::add_", (*site.call.outputs, row, 1), site.call.outputs)
        counted = self._counted(call, ())
        self._enter(replace(site, call=call), counted)
        written = self.storages.of(result), stored_bytes(result)
        self._account(counted, [written, (self.storages.of(bias), stored_bytes(bias))], [written])

    def _faked(self, args: Any) -> Any:
        """Tensors with data that C++ brought in, as fake ones."""
        if not any(isinstance(arg, self.torch.Tensor) and not isinstance(arg, self._fake) for arg in args):
            return args
        return tuple(self.twin(arg) if isinstance(arg, self.torch.Tensor) else arg for arg in args)

    def _touched(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[list[Access], list[Access]]:
        """The buffers that a call is given, those it reads and those it writes in place."""
        read: list[Access] = []
        written: list[Access] = []
        overwriting = base_name(func._schema.name) in OVERWRITING
        for place, argument in enumerate(func._schema.arguments):
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            for item in flat((value,)):
                if not isinstance(item, self.torch.Tensor):
                    continue
                access = (
                    self.storages.of(item, PARAMETER if isinstance(item, self.torch.nn.Parameter) else ""),
                    stored_bytes(item),
                )
                changed = argument.alias_info is not None and argument.alias_info.is_write
                if changed:
                    written.append(access)
                if not changed or not (overwriting or argument.is_out):
                    read.append(access)
        return read, written

    def _counted(self, call: Call, args: Any) -> Counted:
        ranks = group_size(self.torch, args) if is_collective(call.name) else 0
        key = call, ranks
        if key not in self._counts:
            tf32, conv_tf32 = tf32_flags(self.torch)
            self._counts[key] = count(call, Settings(tf32, conv_tf32, "cuda", leaf=True, ranks=ranks))
        return self._counts[key]

    def _enter(self, site: Site, counted: Counted) -> None:
        if len(self.calls) >= MAX_CALLS:
            raise InputError(f"the program makes more than {MAX_CALLS} operator calls; trace a smaller part of it")
        index = self._sites.get(site)
        if index is None:
            index = self._sites[site] = len(self.ops)
            kind = counted.kind if counted.kind in (WORK, HOST, UNKNOWN) else FREE
            sort = VIEW if kind == FREE else sort_of(site.call.name)
            self.ops.append(
                TracedOp(site, kind, counted.work, sort, counted.backend, counted.reason, tensor_bytes(site.call))
            )
        self.calls.append(index)
        self.entered.append(self.places.entered)

    def _account(self, counted: Counted, read: list[Access], written: list[Access]) -> None:
        if counted.kind not in (WORK, UNKNOWN):
            read, written = [], []
        once = list(dict(written).items())  # an operator in place also returns what it wrote
        work = counted.work
        self.reads.append(fitted(read, _moved(work, READ)) if work is not None else tuple(read))
        self.writes.append(fitted(once, _moved(work, WRITE)) if work is not None else tuple(once))

    def trace(self, name: str, notes: tuple[str, ...] = ()) -> Trace:
        """What was recorded, with what its buffers hold."""
        places, storages = self.places, self.storages
        for root in places.roots:
            storages.mark(root.parameters(), PARAMETER)
            storages.mark(root.buffers(), PARAMETER)
            storages.mark((item.grad for item in root.parameters() if item.grad is not None), GRADIENT)
        for optimizer in places.optimizers.values():
            held = [item for state in optimizer.state.values() for item in state.values()]
            storages.mark((item for item in held if isinstance(item, self.torch.Tensor)), STATE)
            parameters = [item for group in optimizer.param_groups for item in group["params"]]
            storages.mark((item.grad for item in parameters if item.grad is not None), GRADIENT)
        backward = self.first_backward if self.first_backward < MAX_CALLS else None
        ops, calls = _settled(self.ops, self.calls)
        return Trace(
            tuple(ops), np.array(calls, int), np.ones(len(calls)), tuple(self.reads), tuple(self.writes),
            storages.columns(backward), name, "torch", notes, entered=np.diff(self.entered, prepend=0),
        )  # fmt: skip


def _moved(work: Any, way: str) -> float:
    return float(sum(np.max(np.asarray(size)) for (_, _, direction), size in work.moves.items() if direction == way))


def _settled(ops: list[TracedOp], calls: list[int]) -> tuple[list[TracedOp], list[int]]:
    """Work on gradients between the backward pass and the optimizer step (clipping, scaling) belongs to the optimizer."""
    ops, calls = list(ops), list(calls)
    moved: dict[int, int] = {}
    following = ""
    for place in range(len(calls) - 1, -1, -1):
        op = ops[calls[place]]
        phase = op.site.phase
        if phase == FORWARD and not op.site.modules and following == OPTIMIZER:
            if calls[place] not in moved:
                moved[calls[place]] = len(ops)
                ops.append(replace(op, site=replace(op.site, phase=OPTIMIZER)))
            calls[place] = moved[calls[place]]
        elif phase != following:
            following = phase
    return _used(ops, calls)


def _used(ops: list[TracedOp], calls: list[int]) -> tuple[list[TracedOp], list[int]]:
    """Ops that some call is, in the order of their first calls."""
    order: dict[int, int] = {}
    for index in calls:
        order.setdefault(index, len(order))
    return [ops[index] for index in order], [order[index] for index in calls]


def group_size(torch: Any, args: Any) -> int:
    """Ranks of the process group among the arguments of a collective; 0 where there is none."""
    from torch.distributed import distributed_c10d as groups

    for arg in args:
        try:
            if isinstance(arg, str) and arg:
                return int(groups._resolve_process_group(arg).size())
            if isinstance(arg, torch.ScriptObject) and "ProcessGroup" in str(arg._type()):
                return int(groups.ProcessGroup.unbox(arg).size())
        except (RuntimeError, ValueError, TypeError, AttributeError):
            continue
    return 0
