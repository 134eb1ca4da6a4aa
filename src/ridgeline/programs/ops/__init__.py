"""The ops by name: each turns sizes into Work. `ridgeline.ops.gemm(m=4096, n=4096, k=4096)`.

Every module of this folder is loaded, and what it registers with `@op` is an op; a new one needs no entry elsewhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from ...core.errors import UnknownName
from .registry import OPS, Op, Param, find, op_name

__all__ = ["OPS", "Op", "Param", "find", "op_name"]

for _module in iter_modules(__path__):
    import_module(f".{_module.name}", __name__)


def __getattr__(name: str) -> Op:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return find(name)
    except UnknownName as error:
        raise AttributeError(f"{error} dir(ridgeline.ops) lists them.") from None


def __dir__() -> list[str]:
    return [*__all__, *OPS]
