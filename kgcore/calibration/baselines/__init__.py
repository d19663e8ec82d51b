"""Baselines: maps from scores to probabilities that fit no curve to the labels. Calibrators are compared with them.

They implement the class `Calibrator`, but have their own registry. So no setting can choose one as a calibrator.
"""
