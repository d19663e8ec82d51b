"""Ensembles: several calibrated models, the members, combined into one.

An opinion pool combines the probabilities of the members. base.py holds the abstract class of pools, and each pool has
its own file. fit.py fits ensembles on the validation rows, in folds, and applies them to the test rows. ensemble.py
holds a pool of members, which is the scorer behind a calibrator. disagreement.py measures how much members disagree.
"""
