"""Evaluation on the test split.

predictions.py computes the probabilities and the decisions. evaluate.py computes every registered metric on them.
groups.py computes the results of groups of rows. decisions.py stores those of per-relation thresholds.
"""
