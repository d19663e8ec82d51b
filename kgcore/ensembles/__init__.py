"""Ensembles: several calibrated models, the members, combined into one.

An opinion pool combines the probabilities of the members. base.py holds the abstract class of pools, and each pool has
its own file. fit.py fits ensembles on the validation rows, in folds. ensemble.py holds a fitted ensemble. judge.py
applies ensembles to the test rows, and disagreement.py measures how much the members disagree.
"""
