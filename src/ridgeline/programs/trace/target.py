"""Targets: which program to trace, `file.py:name`, where `name` is a function without arguments that returns the program.

It returns `(callable, args)` or `(callable, args, kwargs)`. The file is run as Python runs it; what it raises is reported with
its line.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import InputError, first_line, quoted, unknown
from .frames import raised_at

SHAPE = "a function without arguments that returns (callable, args) or (callable, args, kwargs)"
TORCH, JAX = FRAMEWORKS = "torch", "jax"


@dataclass(frozen=True)
class Target:
    """A program to trace: what is called, and with what."""

    callable: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


def load(text: str) -> Target:
    """The target of `file.py:name`."""
    return returned(maker(text), text)


def maker(text: str, values: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """The function that `file.py:name` names, its file run; it will be called with `values` by name."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not file or not name.isidentifier():
        raise InputError(f"a program to trace is file.py:name, where name is {SHAPE}; {quoted(text)} is not")
    if not path.is_file():
        raise InputError(f"no file {quoted(file)} to trace a program from; give file.py:name")
    module = _run(path)
    if not hasattr(module, name):
        functions = [
            key
            for key, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        raise unknown("function", name, functions, f"Functions of {path.name} can be traced.")
    function: Any = getattr(module, name)
    if not callable(function):
        raise InputError(f"{quoted(text)} is not a function: {path.name}:{name} must be {SHAPE}")
    return lambda: _called(function, text, values or {})


def default_of(text: str, argument: str) -> Any:
    """The value that an argument of the function of `file.py:name` has by itself, read from its source; None where it has none."""
    file, _, name = text.rpartition(":")
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError):
        return None  # said by who runs the file
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            positional = node.args.args[len(node.args.args) - len(node.args.defaults) :]
            pairs = [
                *zip(positional, node.args.defaults, strict=True),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            ]
            values = {item.arg: value for item, value in pairs if isinstance(value, ast.Constant)}
            return values[argument].value if argument in values else None
    return None


def returned(make: Callable[[], Any], text: str) -> Target:
    """What the function of a target returns, checked."""
    value = make()
    fits = isinstance(value, tuple) and len(value) in (2, 3) and callable(value[0])
    if not fits or not isinstance(value[1], Sequence) or (len(value) == 3 and not isinstance(value[2], Mapping)):
        raise InputError(
            f"{quoted(text)} returned {_kind(value)}; {text.rpartition(':')[2]} must be {SHAPE}, with args as a tuple"
        )
    return Target(value[0], tuple(value[1]), dict(value[2]) if len(value) == 3 else {}, text.rpartition(":")[2])


def framework_of(*values: Any) -> str:
    """`torch` or `jax` by what a callable and its arguments are, without loading either; empty where they do not say."""
    for value in _parts(values):
        package = type(value).__module__.partition(".")[0]
        if package in ("torch", "jax", "jaxlib"):
            return TORCH if package == "torch" else JAX
        bases = {base.__module__.partition(".")[0] for base in type(value).__mro__}
        if bases & {"torch", "jax"}:
            return TORCH if "torch" in bases else JAX
    return ""


def _parts(values: Any, depth: int = 0) -> list[Any]:
    if isinstance(values, tuple | list) and depth < 4:
        return [part for value in values for part in _parts(value, depth + 1)]
    if isinstance(values, dict) and depth < 4:
        return _parts(list(values.values()), depth + 1)
    return [values]


def _run(path: Path) -> Any:
    """The module of a file, its folder searched first as if Python were started with it."""
    name = f"_traced_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{quoted(str(path))} is no Python file; give file.py:name")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"{path.name}:{error.lineno} is no Python: {first_line(error)}") from error
    except Exception as error:
        raise InputError(f"{quoted(str(path))} cannot be run: {failure(error)}") from error
    finally:
        sys.path.remove(folder)
    return module


def _called(function: Callable[..., Any], text: str, values: Mapping[str, Any]) -> Any:
    parameters = inspect.signature(function).parameters.values()
    takes_any = any(item.kind is item.VAR_KEYWORD for item in parameters)
    names = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    for name in values:
        if name not in names and not takes_any:
            takes = f"takes {', '.join(names)}" if names else "takes no arguments"
            raise InputError(
                f"{quoted(text)} has no parameter {quoted(name)}: {text.rpartition(':')[2]} {takes}; "
                f"give it a parameter, such as def {text.rpartition(':')[2]}({name}=8)"
            )
    wanted = [
        item.name
        for item in parameters
        if item.default is item.empty
        and item.name not in values
        and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]
    if wanted:
        raise InputError(
            f"{quoted(text)} takes arguments ({', '.join(wanted[:4])}), so there are no example inputs; "
            f"write {SHAPE}, and trace that"
        )
    try:
        return function(**values)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{quoted(text)} cannot be built: {failure(error)}") from error


def failure(error: BaseException) -> str:
    """What went wrong in the user's program and at which line."""
    place = raised_at(error.__traceback__)
    said = f"{type(error).__name__}: {first_line(error)}"
    return f"{place}: {said}" if place else said


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"
