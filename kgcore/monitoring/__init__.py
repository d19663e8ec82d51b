"""Monitoring of a calibrated model after it is chosen.

gate.py tests whether a challenger may replace the champion. drift.py measures a model on newly labelled triples. It
uses the population stability index in stability.py and the significance tests of calibration in significance.py.
"""
