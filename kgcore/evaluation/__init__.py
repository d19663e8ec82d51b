"""Evaluation on the test split.

predictions.py computes the probabilities and the decisions. evaluate.py computes every registered metric on them.
by_relation.py computes the reliability of each relation. all_rows.py adds the rows with unseen entities.
"""
