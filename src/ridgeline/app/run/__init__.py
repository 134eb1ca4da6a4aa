"""The main job, `ridgeline run`: measure this machine, predict a handful of kernels, seal, run them, reconcile."""

from .job import Bench, Outcome, Progress, Workload, job

__all__ = ["Bench", "Outcome", "Progress", "Workload", "job"]
