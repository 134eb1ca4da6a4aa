"""ridgeline: predict where a kernel lands on a machine, measure where it does, reconcile the two.

Rests on the roofline model of Williams, Waterman and Patterson (2009): attainable = min(peak, bandwidth x intensity).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .machines import load as machine  # bound here, after the module `machine` it would otherwise be hidden by

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from . import ops
    from .prediction import predict
    from .render import plot

# Names load what they need when first used, so that importing the package stays light.
_LAZY = {
    "Machine": "machine",
    "Work": "work",
    "Program": "work",
    "Prediction": "prediction",
    "predict": "prediction",
    "predict_cases": "prediction",
    "two_number": "machine",
    "critical_batch": "roofline",
    "batch_intensity": "roofline",
    "attainable": "roofline",
    "ridge": "roofline",
    "RidgelineError": "errors",
    "plot": "render",
}


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ridgeline`: the cell magic `%%roofline`, and results that show themselves."""
    from .notebook import load_ipython_extension as load

    load(shell)


__all__ = ["__version__", "machine", "machines", "observe", "ops", "plot", "predict", "reconcile", *_LAZY]


def __getattr__(name: str) -> Any:
    import sys
    from importlib import import_module

    if "IPython" in sys.modules and name in _LAZY:  # in a notebook, results show themselves
        import_module(".notebook", __name__).hook()
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    if name in ("ops", "machines", "observe", "reconcile"):  # the last two are called
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'ridgeline' has no attribute '{name}'")
