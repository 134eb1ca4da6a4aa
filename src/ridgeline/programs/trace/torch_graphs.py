"""Graphs of `torch.export` and `torch.fx` as programs: run node by node, with the modules and lines that they were made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .frames import USER, rank, short

_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_CHECKS = ("_assert_tensor_metadata", "_assert_scalar", "_guards_fn", "sym_constrain_range")  # of what a trace changes
Place = tuple[tuple[str, ...], str]


def as_program(torch: Any, target: Any, at: Callable[[Place | None], None]) -> Any:
    """A graph as a callable that says through `at` where each node comes from; anything else as it is."""
    exported = getattr(torch.export, "ExportedProgram", ())
    if isinstance(target, exported):
        target = target.module()
    if not isinstance(target, torch.fx.GraphModule):
        return getattr(target, "_orig_mod", target)  # what torch.compile wraps

    class Placed(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            if any(name in str(node.target) for name in _CHECKS):
                return None
            at(place_of(node.meta))
            try:
                return super().run_node(node)
            finally:
                at(None)

        def call_function(self, function: Any, args: Any, kwargs: Any) -> Any:
            on_gpu = {"device": torch.device("cuda:0")} if kwargs.get("device") is not None else {}
            return super().call_function(function, args, {**kwargs, **on_gpu})

    def run(*args: Any, **kwargs: Any) -> Any:
        from torch.utils._pytree import tree_leaves

        flat = tree_leaves((args, kwargs)) if hasattr(target, "_in_spec") else [*args, *kwargs.values()]
        return Placed(target).run(*flat, enable_io_processing=False)

    run.__name__ = type(target).__name__
    return run


def place_of(meta: Mapping[str, Any]) -> Place | None:
    """The modules and the line that a node was made from, where the graph says."""
    modules, outer = [], ""
    for path, kind in (meta.get("nn_module_stack") or {}).values():
        name = path.removeprefix("L['self'].").removeprefix("L['self']")
        inner = name[len(outer) + 1 :] if outer and name.startswith(f"{outer}.") else name
        modules.append(f"{inner}:{kind.rpartition('.')[2] if isinstance(kind, str) else kind.__name__}")
        outer = name
    lines = [(match["file"], match["line"]) for match in _LINE.finditer(meta.get("stack_trace") or "")]
    users = [f"{short(file)}:{line}" for file, line in lines if rank(file) == USER]
    return (tuple(modules), users[-1] if users else "") if modules or users else None
