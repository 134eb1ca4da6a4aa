"""Where in a program an operator is called: its phase, the modules around it and the user's line.

An operator of the backward pass has the modules and the line of the forward operator it is the derivative of: both have the
sequence number that autograd gives to a node.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from ...core.timeline import BACKWARD, FORWARD, OPTIMIZER
from .frames import source_of

Place = tuple[tuple[str, ...], str]  # modules and source
_UNNUMBERED = 1 << 62  # sequence numbers beyond are those of accumulating gradients


class Places:
    """Keeps track of modules, autograd nodes and optimizer steps while a program runs."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.stack: list[
            tuple[Any, tuple[str, ...], bool]
        ] = []  # module, names down to it, entered in the backward pass
        self.optimizers: dict[int, Any] = {}
        self.owners: dict[int, tuple[str, ...]] = {}  # by the id of a parameter: the modules down to its own
        self.roots: list[Any] = []
        self.graph_place: Place | None = None  # of the node of a graph that is being run
        self.entered = 0  # modules called so far
        self.host_autocast = False  # whether a module was called while autocast was on for the CPU and not for the GPU
        self._stepping = 0
        self._children: dict[int, dict[int, str]] = {}
        self._forward: dict[int, Place] = {}

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        from torch.nn.modules import module as hooks
        from torch.optim import optimizer as steps

        handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
            steps.register_optimizer_step_pre_hook(self._step),
            steps.register_optimizer_step_post_hook(self._stepped),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Any, _: Any) -> None:
        self.entered += 1
        asked = self.torch.is_autocast_enabled
        self.host_autocast |= asked("cpu") and not asked("cuda")
        parent, path, _back = self.stack[-1] if self.stack else (None, (), False)
        name = self._name(parent, module) if parent is not None else None
        if name is None:
            self.roots.append(module)
        names = (*path, f"{name or ''}:{type(module).__name__}")
        for parameter in module._parameters.values():
            if parameter is not None:
                self.owners.setdefault(id(parameter), names)
        self.stack.append((module, names, self._node() is not None))

    def _leave(self, module: Any, *_: Any) -> None:
        while self.stack and self.stack.pop()[0] is not module:
            pass

    def _name(self, parent: Any, module: Any) -> str | None:
        """The dotted name of a module in the one that calls it; None for one that is not part of it."""
        names = self._children.get(id(parent))
        if names is None:
            names = self._children[id(parent)] = {id(child): name for name, child in parent.named_modules()}
        return names.get(id(module))

    def _step(self, optimizer: Any, *_: Any) -> None:
        self.optimizers[id(optimizer)] = optimizer
        self._stepping += 1

    def _stepped(self, *_: Any) -> None:
        self._stepping -= 1

    def _node(self) -> Any:
        return self.torch._C._current_autograd_node()

    def here(self) -> tuple[str, Place]:
        """Phase and place of the operator that is being called."""
        if self._stepping:
            return OPTIMIZER, ((), source_of(sys._getframe(2)))
        node = self._node()
        recomputed = bool(self.stack) and self.stack[-1][2]
        if node is None or recomputed:
            place = self.graph_place or ((self.stack[-1][1] if self.stack else ()), source_of(sys._getframe(2)))
            if self.torch.is_grad_enabled():
                self._forward.setdefault(self.torch._C._autograd._get_sequence_nr() - 1, place)
            return FORWARD, place
        return BACKWARD, self._derivative_of(node)

    def accumulates(self) -> bool:
        """Whether autograd adds to the gradient that a parameter has."""
        node = self._node()
        return node is not None and node.name().endswith("AccumulateGrad")

    def _derivative_of(self, node: Any) -> Place:
        number = node._sequence_nr()
        place = self._forward.get(number)
        if place is not None:
            return place
        if number > _UNNUMBERED and hasattr(node, "variable"):
            return self.owners.get(id(node.variable), ()), source_of(sys._getframe(3))
        return (), source_of(sys._getframe(3))
