"""Imports: tells when a program imports torch or JAX, and when anything else that is not of the standard library.

Like `watcher.py` it needs the standard library only: `script.py` loads both in the interpreter of the program.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class Finder(importlib.abc.MetaPathFinder):
    """Calls back once torch or JAX has been imported; the import itself is that of Python."""

    def __init__(self, done: Callable[[ModuleType], None], others: Callable[[], None], names: Sequence[str] = ("torch", "jax")) -> None:  # fmt: skip
        self.done, self.others, self.names = done, others, set(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.names:
            root = name.partition(".")[0]
            if (
                root != "torch"
                and root not in sys.stdlib_module_names
                and threading.current_thread() is threading.main_thread()
            ):
                self.others()
            return None
        self.names.discard(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def then(module: ModuleType) -> None:
            execute(module)
            self.done(module)

        spec.loader.exec_module = then  # type: ignore[method-assign]
        return spec
