"""Evaluation on the test split.

predictions.py computes probabilities and decisions. evaluate.py measures them with every registered metric, and
by_relation.py measures them for each relation.
"""
