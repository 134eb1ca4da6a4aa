"""Tensors with data as fake ones on the traced GPU: parameters, buffers, inputs and whatever else a program holds.

Modules and optimizers hold the fake tensors while the program is traced and get their own back afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ...core.errors import InputError

MAX_DEPTH = 4  # of objects that hold objects, from the callable on


class Twins:
    """One fake tensor for every tensor; views of one storage stay views of one storage.

    A fake tensor is kept as long as the program keeps its tensor: a cache that a step replaces is freed then, as on a GPU.
    """

    def __init__(self, torch: Any, mode: Any) -> None:
        self.torch, self.mode = torch, mode
        self._twins: dict[int, tuple[Any, Any]] = {}  # by id, which is free again when the reference notices its end
        self._storages: dict[int, tuple[Any, Any]] = {}  # by address, likewise

    def __call__(self, tensor: Any, on_gpu: bool = False) -> Any:
        """The fake tensor for one with data. Single numbers are on the host, unless they are a module's."""
        from torch._subclasses.fake_tensor import FakeTensor

        with self.torch._C.DisableTorchFunction():  # a function of torch would ask for the twin again
            number = not on_gpu and tensor.dim() == 0 and not isinstance(tensor, self.torch.nn.Parameter)
            if isinstance(tensor, FakeTensor) and (number or tensor.fake_device.type == "cuda"):
                return tensor
            if id(tensor) not in self._twins:
                made = self._wrapped(tensor) if hasattr(tensor, "__tensor_flatten__") else self._made(tensor, number)
                self._twins[id(tensor)] = _until_freed(tensor, self._twins, id(tensor)), made
            return self._twins[id(tensor)][1]

    def _wrapped(self, tensor: Any) -> Any:
        """A tensor made of others, as the parts of a distributed one: the same of their twins."""
        names, context = tensor.__tensor_flatten__()
        held = {name: getattr(tensor, name) for name in names}
        parts = {
            name: self(part, on_gpu=True) if isinstance(part, self.torch.Tensor) else part
            for name, part in held.items()
        }
        with self.torch.no_grad():
            made = type(tensor).__tensor_unflatten__(parts, context, tensor.shape, tensor.stride())
        parameter = isinstance(tensor, self.torch.nn.Parameter)
        return self.torch.nn.Parameter(made, tensor.requires_grad) if parameter else made

    def _made(self, tensor: Any, host: bool) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor

        torch = self.torch
        if tensor.layout is not torch.strided:
            raise InputError(
                f"a tensor of shape {tuple(tensor.shape)} is sparse ({tensor.layout}), and a trace follows dense tensors only; "
                "give its dense form, or trace the program without it"
            )
        with torch.no_grad(), _plainly(torch):
            plain = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="meta")
            storage = tensor.untyped_storage()
            address = storage._cdata
            if address in self._storages:
                plain.set_(self._storages[address][1], tensor.storage_offset(), tensor.shape, tensor.stride())
            elif storage.nbytes() == plain.untyped_storage().nbytes():
                kept = _until_freed(storage, self._storages, address)
                self._storages[address] = kept, plain.untyped_storage()
            fake = FakeTensor(self.mode, plain, torch.device("cpu" if host else "cuda:0"))
            if isinstance(tensor, torch.nn.Parameter):
                fake._is_param = True  # what torch marks parameters of other kinds of tensors by
            return fake.requires_grad_(tensor.requires_grad)

    def all_in(self, value: Any) -> Any:
        """A structure of arguments with every tensor as a fake one."""
        from torch.utils._pytree import tree_map

        return tree_map(lambda item: self(item) if isinstance(item, self.torch.Tensor) else item, value)


def _until_freed(item: Any, entries: dict[int, tuple[Any, Any]], key: int) -> Any:
    """A reference that takes the entry of an object away when the program frees it."""
    return weakref.ref(item, lambda _: entries.pop(key, None))


@contextlib.contextmanager
def _plainly(torch: Any) -> Iterator[None]:
    """Without any mode that is active."""
    from torch.utils._python_dispatch import _disable_current_modes

    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


class Substituted:
    """Modules and optimizers with fake tensors in place of theirs, and the way back."""

    def __init__(self, torch: Any, twins: Twins) -> None:
        self.torch, self.twins = torch, twins
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()

    def visit(self, value: Any, depth: int = 0) -> None:
        """Finds the modules and optimizers that a callable holds: itself, its object, its closure, globals it names."""
        if id(value) in self._seen or depth > MAX_DEPTH:
            return
        self._seen.add(id(value))
        torch = self.torch
        if isinstance(value, torch.nn.Module):
            for module in value.modules():
                self._swap_module(module)
        elif isinstance(value, torch.optim.Optimizer):
            self._swap_optimizer(value)
        elif isinstance(value, functools.partial):
            self._visit_all((value.func, value.args, value.keywords), depth)
        elif isinstance(value, tuple | list):
            self._visit_all(value, depth)
        elif isinstance(value, dict):
            self._visit_all(value.values(), depth)
        elif callable(value) and hasattr(value, "__code__"):
            self._visit_function(value, depth)
        elif hasattr(value, "__self__"):
            self._visit_all(
                (value.__self__, value.__func__) if hasattr(value, "__func__") else (value.__self__,), depth
            )
        elif hasattr(value, "__dict__") and not isinstance(value, type) and not isinstance(value, torch.Tensor):
            self._visit_all(vars(value).values(), depth)

    def _visit_all(self, values: Any, depth: int) -> None:
        for value in list(values):
            if isinstance(value, str | int | float | bool | ModuleType | None):
                continue
            self.visit(value, depth + 1)

    def _visit_function(self, function: Any, depth: int) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
        named = [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
        held = [getattr(function, "__self__", None), wrapped, *(function.__defaults__ or ())]
        self._visit_all([*held, *cells, *named], depth)

    def _swap_module(self, module: Any) -> None:
        for held in (module._parameters, module._buffers):
            before = dict(held)
            held.update(
                {name: self.twins(tensor, on_gpu=True) for name, tensor in before.items() if tensor is not None}
            )
            self._undo.append(functools.partial(held.update, before))
        plain = {name: value for name, value in vars(module).items() if isinstance(value, self.torch.Tensor)}
        vars(module).update({name: self.twins(tensor) for name, tensor in plain.items()})
        self._undo.append(functools.partial(vars(module).update, plain))

    def _swap_optimizer(self, optimizer: Any) -> None:
        groups = [list(group["params"]) for group in optimizer.param_groups]
        state = dict(optimizer.state)

        def back() -> None:
            for group, parameters in zip(optimizer.param_groups, groups, strict=True):
                group["params"] = parameters
            optimizer.state.clear()
            optimizer.state.update(state)

        self._undo.append(back)
        for group in optimizer.param_groups:
            group["params"] = [self.twins(item) for item in group["params"]]
        optimizer.state.clear()
        for parameter, held in state.items():
            optimizer.state[self.twins(parameter)] = self.twins.all_in(held)

    def restore(self) -> None:
        for undo in reversed(self._undo):
            undo()


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
