"""Models: how long the phases of a transformer take on a machine, what memory they need, and what a request waits for."""

from .result import ModelPrediction, predict_model

__all__ = ["ModelPrediction", "predict_model"]
