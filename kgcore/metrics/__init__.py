"""Metrics: functions of probabilities, labels and weights; evaluation measures those that are registered.

Each file has one idea: proper scores, calibration errors, discrimination, sharpness, decisions, ranks. base.py has the
contract of a registered metric, catalogue.py the selections of metrics that tables show.
"""
