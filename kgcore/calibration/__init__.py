"""Calibration: maps from scores to probabilities.

Each calibrator has its own file. base.py is the contract, sample.py builds the samples that calibrators are fitted on,
audit.py describes a sample, fit.py fits every calibrator of a score table, bound.py ties a fitted calibrator to its
model and its graph, and shift.py moves probabilities to another base rate. baselines/ holds the maps that calibrators
are compared with. kgcore/metrics and kgcore/evaluation measure the result.
"""
