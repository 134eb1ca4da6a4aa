"""Traces of programs: what one run of a PyTorch or JAX program does, read without running it on a device."""
