"""ridgeline: predict where a kernel lands on a machine, measure where it does, reconcile the two.

Rests on the roofline model of Williams, Waterman and Patterson (2009): attainable = min(peak, bandwidth x intensity).
"""

from __future__ import annotations

import sys
from importlib import import_module

from .core.version import __version__

TYPE_CHECKING = False  # as checkers read it; loading `typing` would take most of the time of this import
if TYPE_CHECKING:
    from typing import Any

    from .core.errors import RidgelineError
    from .core.machine import Machine, two_number
    from .core.roofline import attainable, batch_intensity, critical_batch, ridge
    from .core.work import Program, Work
    from .gaps.report import reconcile
    from .machines.files import names as machine_names
    from .machines.load import load as machine
    from .prediction.explain import explain
    from .prediction.many import predict_cases
    from .prediction.models.ask import model
    from .prediction.predict import Prediction, predict
    from .prediction.simple import predict_matmul
    from .profilers.live import observe
    from .profilers.step import step
    from .programs import ops
    from .programs.trace.program import trace
    from .render.figure import plot

# Public names to where they live: a module, or `module:attribute`. Each is loaded when first used, so that importing
# the package stays light.
_LAZY = {
    "Machine": "core.machine:Machine",
    "Prediction": "prediction.predict:Prediction",
    "Program": "core.work:Program",
    "RidgelineError": "core.errors:RidgelineError",
    "Work": "core.work:Work",
    "attainable": "core.roofline:attainable",
    "batch_intensity": "core.roofline:batch_intensity",
    "critical_batch": "core.roofline:critical_batch",
    "explain": "prediction.explain:explain",
    "machine": "machines.load:load",
    "machine_names": "machines.files:names",
    "model": "prediction.models.ask:model",
    "observe": "profilers.live:observe",
    "ops": "programs.ops",
    "plot": "render.figure:plot",
    "predict": "prediction.predict:predict",
    "predict_cases": "prediction.many:predict_cases",
    "predict_matmul": "prediction.simple:predict_matmul",
    "reconcile": "gaps.report:reconcile",
    "ridge": "core.roofline:ridge",
    "step": "profilers.step:step",
    "trace": "programs.trace.program:trace",
    "two_number": "core.machine:two_number",
}

__all__ = [
    "Machine", "Prediction", "Program", "RidgelineError", "Work", "__version__", "attainable", "batch_intensity", "critical_batch",
    "explain", "machine", "machine_names", "model", "observe", "ops", "plot", "predict", "predict_cases", "predict_matmul", "reconcile", "ridge",
    "step", "trace", "two_number",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ridgeline' has no attribute '{name}'")
    if "IPython" in sys.modules:  # in a notebook, results show themselves
        import_module(".app.notebook", __name__).hook()
    path, _, attribute = _LAZY[name].partition(":")
    module = import_module(f".{path}", __name__)
    return getattr(module, attribute) if attribute else module


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ridgeline`: the cell magic `%%roofline`, and results that show themselves."""
    from .app.notebook import load_ipython_extension as load

    load(shell)
