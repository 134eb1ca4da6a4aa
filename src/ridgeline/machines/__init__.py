"""Machines: a Machine from a catalog file, from what the system reports, or from Observations of its ceilings."""
