"""Measures of calibrated probabilities.

metrics     proper scores, reliability, discrimination, ranks
evaluation  the predictions of a test split and their metrics, with intervals
report      results as tables, plots and pages; the data report
"""
