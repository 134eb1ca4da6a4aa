"""Functions of PyTorch as a traced program calls them: on the traced GPU, and kept as the one operator that a GPU runs.

Tensors that name no device are made on the GPU, so that a program written for a CPU traces as one moved there. The numbers
that `torch.tensor(0.5)` and optimizers keep on the host stay there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .torch_values import CHECKED, UnknownNumber, callers, known_to_reader, passes_check

HALF = 0.5
DRAWN = f"single random numbers that the host draws are taken to be {HALF}: layers that are skipped less often than that are kept"

Twin = Callable[[Any], Any]  # a tensor with data to its fake one


def function_mode(handle: Callable[[Any, Any, dict[str, Any]], Any]) -> Any:
    """A mode that hands every function of torch to `handle(func, args, kwargs)`, before it is taken apart."""
    from torch.overrides import TorchFunctionMode

    class Handed(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return handle(func, args, dict(kwargs or {}))

    return Handed()


class Functions:
    """What is changed about calls of functions; `twin` gives the fake tensor for one with data."""

    def __init__(self, torch: Any, twin: Twin) -> None:
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.utils._device import _device_constructors

        self.torch, self.twin, self.fake = torch, twin, FakeTensor
        self.gpu = torch.device("cuda:0")
        self._half = torch.tensor(HALF)
        self.copying = torch.tensor, torch.as_tensor  # of numbers that the program knows, on the host where it says so
        self._wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # inside of vmap and grad, around a fake one
        self.notes: dict[str, None] = {}
        self.constructors = frozenset(_device_constructors())
        self.special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.cuda: self._cuda,
            torch.Tensor.pin_memory: lambda tensor, *_, **__: tensor,
            torch.Tensor.to: self._to,
            torch.Tensor.item: self._item,
            torch.Tensor.__float__: lambda tensor: float(self._item(tensor)),
            torch.Tensor.__bool__: self._decided,
            torch.Tensor.__contains__: self._holds,
            torch.rand: self._drawn,
        }

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(self._real(arg) for arg in args):
            args = tuple(self._faked(arg) for arg in args)
        if kwargs:
            kwargs = {name: self._faked(value) for name, value in kwargs.items()}
        if func in self.special:
            return self.special[func](*args, **kwargs)
        if func in self.constructors:
            kwargs["device"] = self._made_on(func, args, kwargs.get("device"))
        elif "device" in kwargs:
            kwargs["device"] = self._moved(kwargs["device"])
        return func(*args, **kwargs)

    def _real(self, value: Any) -> bool:
        if isinstance(value, self.torch.Tensor):
            return not isinstance(value, self.fake) and not self._wrapped(value)
        return isinstance(value, tuple | list) and any(self._real(item) for item in value)

    def _faked(self, value: Any) -> Any:
        if not self._real(value):
            return value
        if isinstance(value, self.torch.Tensor):
            return self.twin(value)
        return type(value)(self._faked(item) for item in value) if type(value) in (tuple, list) else value

    def _moved(self, device: Any) -> Any:
        """A device as given; the GPU for `cuda` without a number and for `meta`."""
        if isinstance(device, str) and device.partition(":")[0] in ("cuda", "meta"):
            return self.gpu
        if isinstance(device, self.torch.device) and device.type in ("cuda", "meta"):
            return self.gpu
        return self.gpu if isinstance(device, int) and not isinstance(device, bool) else device

    def _made_on(self, func: Any, args: tuple[Any, ...], device: Any) -> Any:
        if device is not None and (func in self.copying or str(device) != "cpu"):
            return self._moved(device)
        if func in self.copying and args and _is_number(args[0]):
            return None
        return None if _called_from_optimizer() else self.gpu

    def _drawn(self, *args: Any, **kwargs: Any) -> Any:
        """Random numbers; a single one that the host draws, as it does to skip layers, is a half."""
        single = not kwargs and (not args or (len(args) == 1 and args[0] in ((), [])))
        if single and not _called_from_optimizer():
            self.notes[DRAWN] = None
            drawn = self.torch.tensor(HALF)
            drawn.constant = self._half  # what follows from it is computed
            return drawn
        kwargs["device"] = self._made_on(self.torch.rand, args, kwargs.get("device"))
        return self.torch.rand(*args, **kwargs)

    def _cuda(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return tensor.to(self.gpu)

    def _to(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """`to` without the device where the tensor is there already, which C++ cannot tell."""
        args = tuple(self._moved(arg) for arg in args)
        if "device" in kwargs:
            kwargs["device"] = self._moved(kwargs["device"])
        if tensor.device == self.gpu:
            args = tuple(arg for arg in args if arg != self.gpu) if self.gpu in args else args
            kwargs = {name: value for name, value in kwargs.items() if name != "device" or value != self.gpu}
            if not any(isinstance(item, self.torch.dtype | self.torch.Tensor) for item in (*args, *kwargs.values())):
                if "memory_format" not in kwargs:
                    return tensor
                return tensor.contiguous(memory_format=kwargs["memory_format"])
        return self.torch.Tensor.to(tensor, *args, **kwargs)

    def _decided(self, tensor: Any) -> bool:
        """A tensor in an `if`: known where it has data or a library only checks its arguments."""
        from torch._subclasses.fake_tensor import DataDependentOutputException

        try:
            return bool(self.torch.Tensor.__bool__(tensor))
        except DataDependentOutputException:
            if not passes_check():
                raise
            self.notes[CHECKED] = None
            return True

    def _holds(self, tensor: Any, value: Any) -> bool:
        """`value in tensor`, as libraries look for padding."""
        if passes_check():
            self.notes[CHECKED] = None
            return False
        return bool(self._decided((tensor == value).any()))

    def _item(self, tensor: Any) -> Any:
        """A number that the host reads; one that is not known where the tensor has no data."""
        from torch._subclasses.fake_tensor import DataDependentOutputException

        try:
            return self.torch.Tensor.item(tensor)
        except DataDependentOutputException:
            known = known_to_reader()
            return UnknownNumber("nan") if known is None else known


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex)


def _called_from_optimizer() -> bool:
    """Whether the function of torch was called by `torch.optim`, whose step counts are on the host."""
    return any(name.startswith("torch.optim") for name in callers()[:3])
