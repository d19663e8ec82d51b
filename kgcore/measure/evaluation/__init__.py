"""Evaluation on the test split.

predictions.py computes the probabilities and the decisions. evaluate.py computes every registered metric on them, and
groups.py the results of groups of rows.
"""
