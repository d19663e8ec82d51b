"""Calibration: maps from scores to probabilities.

One file a calibrator; base.py is the contract, sample.py makes what is fitted (ground truth or synthetic), fit.py fits,
shift.py moves probabilities to another base rate. Baselines, which fit nothing, are in baselines/.
"""
