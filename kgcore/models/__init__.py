"""Scoring functions, one file each. base.py is the contract, comparators.py has dot products and distances.

trained.py has a scoring function with its trained tables, cohort.py the cohort term of its scores, and inverse.py the
score of a model with inverse predicates. The package does not train models.
"""
