"""Monitoring of a calibrated model after it is chosen.

gate.py decides whether a challenger replaces the champion. drift.py measures a model on newly labelled triples, with
the population stability index of stability.py and the tests of calibration of significance.py.
"""
