"""Scoring functions, one file each; base.py is the contract.

trained.py holds a trained model with its tables, cohort.py the cohort term of its scores, inverse.py inverse relations.
"""
