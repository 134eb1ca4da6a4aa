"""A GPU that is not there: fake tensors on `cuda:0`, without memory, on any build of PyTorch and without touching a GPU.

Fake tensors carry shapes, strides and formats and no data. Python sees them on `cuda:0`, and the dispatcher picks what it
picks for CUDA (autocast too). C++ is answered `meta` where it asks for the device, because builds without CUDA have no guard
for it, and the autograd engine needs one. Functions of `torch.cuda` that programs call answer as on one idle GPU.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ...core.errors import InputError

CAPABILITY = 9, 0  # of the GPU that programs are answered with: Hopper
RANDOM_STATE_BYTES = 16  # of a CUDA generator: its seed and its offset
Patch = tuple[Any, str, Any]


def fake_mode() -> Any:
    """A mode whose tensors may be on `cuda:0` whatever the machine has."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    class WithoutDevice(FakeTensorMode):  # type: ignore[misc]
        avoid_device_init = True  # a property of the base: whether a GPU is there to set up

    return WithoutDevice(allow_non_fake_inputs=True, allow_fallback_kernels=False)


@contextlib.contextmanager
def patched(patches: list[Patch]) -> Iterator[None]:
    """Attributes replaced for a while; those that an object lacks are left alone."""
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in patches if name in vars(owner)]
    try:
        for owner, name, value in patches:
            if name in vars(owner):
                setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


@contextlib.contextmanager
def absent_gpu(torch: Any) -> Iterator[None]:
    """The patches under which programs for a GPU trace on a machine without one."""
    from torch._subclasses import fake_tensor
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    if not hasattr(fake_tensor, "_DISPATCH_META_HANDLERS"):
        raise InputError(f"tracing needs a newer PyTorch than {torch.__version__}; it was checked with 2.13")
    device_op = torch.ops.prim.device.default
    handlers = fake_tensor._DISPATCH_META_HANDLERS
    dispatch, handler = fake_tensor.FakeTensor.__torch_dispatch__, handlers[device_op]

    def class_dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is device_op:
            return seen_device(torch, args[0])
        return dispatch(func, types, args, kwargs or {})

    fake: list[Patch] = [
        (fake_tensor.FakeTensor, "__torch_dispatch__", classmethod(class_dispatch)),
        (fake_tensor.FakeTensor, "__new__", staticmethod(_made_on_gpu(torch, fake_tensor.FakeTensor.__new__))),
        (fake_tensor, "init_gpu_context", _nothing),
        (torch.nn.Module, "_apply", _apply),
        (torch._C, "_InferenceMode", _inference(torch)),
        (torch._C.ScriptFunction, "__call__", _unscripted(torch._C.ScriptFunction.__call__)),
        (torch._C, "_group_tensors_by_device_and_dtype", _grouped(torch)),
        (
            _foreach_utils,
            "_foreach_supported_types",
            [*_foreach_utils._foreach_supported_types, fake_tensor.FakeTensor],
        ),
        (optimizer, "_foreach_supported_types", [*optimizer._foreach_supported_types, fake_tensor.FakeTensor]),
    ]
    handlers[device_op] = lambda args: seen_device(torch, args[0])
    try:
        with patched(fake), patched(_cuda_functions(torch)), patched(_libraries()):
            yield
    finally:
        handlers[device_op] = handler


def seen_device(torch: Any, tensor: Any) -> Any:
    """The device that C++ is answered with."""
    device = tensor.fake_device
    return torch.device("meta") if device.type == "cuda" or tensor.fake_mode.in_kernel_invocation else device


def _made_on_gpu(torch: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    """Makes fake tensors; their device is the third argument or has a name."""

    def made(*args: Any, **kwargs: Any) -> Any:
        args = tuple(_numbered(torch, arg) if isinstance(arg, torch.device | str) else arg for arg in args)
        return make(
            *args, **{name: _numbered(torch, value) if "device" in name else value for name, value in kwargs.items()}
        )

    return made


def _numbered(torch: Any, device: Any) -> Any:
    """The device of a new fake tensor. C++ makes tensors on `meta`, where it sees those of the GPU."""
    if device is None:
        return None
    given = torch.device(device)
    return torch.device("cuda:0") if given.type in ("cuda", "meta") else given


def _libraries() -> list[Patch]:
    """Libraries that treat fake tensors in another way than those of a run, by what they ask."""
    names = ("transformers.utils.import_utils", "is_fake_tensor"), ("transformers.utils.generic", "is_fake_tensor")
    return [(sys.modules[module], name, _always(False)) for module, name in names if module in sys.modules]


def _inference(torch: Any) -> Any:
    """Inference mode as a mode without gradients: the operators are the same, and are taken apart where a GPU does."""

    def context(enabled: bool = True) -> Any:
        return torch.no_grad() if enabled else contextlib.nullcontext()

    return context


def _unscripted(scripted: Callable[..., Any]) -> Callable[..., Any]:
    """Functions of TorchScript as the Python they were made from: its interpreter knows no fake tensors."""

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        python = getattr(function, "_torchdynamo_inline", None)
        return scripted(function, *args, **kwargs) if python is None else python(*args, **kwargs)

    return run


def _grouped(torch: Any) -> Callable[..., Any]:
    """Tensors by device and format, as optimizers and clipping group them in C++."""
    grouped = torch._C._group_tensors_by_device_and_dtype

    def by_device(*args: Any, **kwargs: Any) -> Any:
        groups = grouped(*args, **kwargs)
        return {(_numbered(torch, device), dtype): lists for (device, dtype), lists in groups.items()}

    return by_device


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class _Event:
    """A CUDA event or stream that nothing happens on."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _always(0.0 if name == "elapsed_time" else None)

    def __enter__(self) -> _Event:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _cuda_functions(torch: Any) -> list[Patch]:
    cuda = torch.cuda
    answers = {
        "is_available": True, "device_count": 1, "current_device": 0, "is_bf16_supported": True, "mem_get_info": (0, 0),
        "is_current_stream_capturing": False,
        "get_device_capability": CAPABILITY, "get_device_name": "traced GPU", "memory_allocated": 0,
        "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0, "initial_seed": 0,
    }  # fmt: skip
    silent = (
        "synchronize", "empty_cache", "reset_peak_memory_stats", "manual_seed", "manual_seed_all", "set_device", "init",
        "ipc_collect", "reset_max_memory_allocated", "seed", "seed_all", "set_rng_state", "set_rng_state_all",
    )  # fmt: skip
    # Where the process has set up a GPU, checkpoints and forks of random numbers would read and write its generators.
    state = torch.zeros(RANDOM_STATE_BYTES, dtype=torch.uint8)
    patches: list[Patch] = [(cuda, "_initialized", False)]
    patches += [(cuda, "get_rng_state", _always(state)), (cuda, "get_rng_state_all", _always([state]))]
    patches += [(cuda, name, _always(value)) for name, value in answers.items()]
    patches += [(cuda, name, _nothing) for name in silent]
    patches += [(cuda, "Event", _Event), (cuda, "Stream", _Event), (cuda, "stream", _Event)]
    patches += [(cuda, "current_stream", _Event), (cuda, "default_stream", _Event)]
    patches += [(cuda.nvtx, name, _nothing) for name in ("range_push", "range_pop", "mark")]
    return patches


def _apply(module: Any, change: Callable[[Any], Any], recurse: bool = True, memo: dict[int, Any] | None = None) -> Any:
    """`nn.Module._apply` for fake tensors: changed parameters replace the old ones, shared ones stay shared."""
    import torch

    seen = {} if memo is None else memo
    for child in module.children() if recurse else ():
        _apply(child, change, recurse, seen)
    for held in (module._parameters, module._buffers):
        for name, tensor in held.items():
            if tensor is None:
                continue
            if id(tensor) not in seen:
                with torch.no_grad():
                    changed = change(tensor)
                if isinstance(tensor, torch.nn.Parameter) and changed is not tensor:
                    changed = torch.nn.Parameter(changed, tensor.requires_grad)
                seen[id(tensor)] = tensor, changed  # the old one is kept, so that its id is not given again
            held[name] = seen[id(tensor)][1]
    return module
