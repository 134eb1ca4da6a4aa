"""A traced program as a machine runs it: kernel by kernel, with the host that dispatches them and the memory they need.

predict_trace(trace, machine, mode="eager" | "graph" | "fused") -> ProgramPrediction
"""

from .op_time import OpTime
from .predict import predict_trace
from .result import ProgramPrediction
from .whatif import ProgramChange, program_changes

__all__ = ["OpTime", "ProgramChange", "ProgramPrediction", "predict_trace", "program_changes"]
