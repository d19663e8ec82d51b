"""Ensembles: several calibrated models, the members, combined into one.

An opinion pool combines the probabilities of the members: pools.py has the abstract class and the pools. fit.py fits
ensembles on the validation rows, in folds, and applies them to the test rows. ensemble.py holds a pool of members,
which is the scorer behind a calibrator. fit.py also measures how much members disagree.
"""
