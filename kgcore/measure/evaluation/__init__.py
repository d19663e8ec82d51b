"""Evaluation on the test split.

predictions.py computes the probabilities and the decisions. evaluate.py computes every registered metric on them, for
all rows and for groups of rows.
"""
