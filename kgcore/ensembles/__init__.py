"""Ensembles: several calibrated models combined into one.

An opinion pool combines the probabilities of the members. base.py is the contract, and each pool has its own file.
fit.py learns the pools on the validation rows, with the folds of folds.py, and ensemble.py is the result. judge.py
applies ensembles to the test rows, and disagreement.py measures the disagreement of the members.
"""
