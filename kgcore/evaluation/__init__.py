"""Evaluation on the test split.

predictions.py has probabilities and decisions, evaluate.py measures them with every registered metric, by_relation.py
measures them for each relation, and results.py and summary.py hold what was measured, as it is stored and reported.
"""
