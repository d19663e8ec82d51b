"""Ensembles: several calibrated models as one.

A pool (one file each; base.py is the contract) makes one probability of the members'. fit.py learns the weights on
validation, judge.py measures on test, disagreement.py says what the members' disagreement is worth.
"""
