"""Collective probes: Observations of what the ranks of a `torchrun` job reach together, on gloo or nccl."""
