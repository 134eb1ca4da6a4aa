"""Gaps: what was predicted against what was observed, why they differ, what to do, and the record of it all."""
