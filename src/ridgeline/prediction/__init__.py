"""Predictions: bounds and expected times of a Program on a Machine, and every study that compares predictions."""
