"""Measures of calibrated probabilities: metrics, the evaluation of a test split, and the report."""
