"""Transformers as programs: an architecture, a phase, formats and a layout give the ops that one device runs."""
