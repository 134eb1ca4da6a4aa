"""Profilers: Observations from what other tools recorded (Nsight Compute, torch.profiler, JAX, LIKWID, perf, ...)."""
