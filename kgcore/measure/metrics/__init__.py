"""Metrics: functions of probabilities, labels and weights. An evaluation computes all registered metrics.

base.py            what a registered metric is, the triples that it is computed on, its interval, and all metrics
proper.py          proper scores and their decomposition
reliability.py     calibration errors
classification.py  accuracy, thresholds, discrimination, sharpness, metrics of ranks
"""
