"""Baselines: maps from scores to probabilities that learn nothing from labels, for comparison.

They follow the contract of a calibrator but have their own registry, so a setting cannot choose them as calibrators.
"""
