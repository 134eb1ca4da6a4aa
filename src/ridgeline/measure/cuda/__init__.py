"""CUDA probes: Observations of an NVIDIA GPU's ceilings, launches, energy and library kernels."""
