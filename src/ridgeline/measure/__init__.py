"""Measuring: Observations of this machine's ceilings and kernels, taken by probes of our own."""
