"""Metrics: functions of probabilities, labels and weights. An evaluation computes all registered metrics.

Each file holds one kind of metric: proper scores, calibration errors, discrimination, sharpness, accuracy, ranks.
base.py describes what a registered metric is. catalogue.py lists the registered metrics, in order and by family, for
the tables that show them.
"""
