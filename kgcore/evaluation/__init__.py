"""Evaluation on the test split.

predictions.py computes the probabilities and the decisions. evaluate.py computes every registered metric on them.
by_relation.py computes the reliability of each relation, by_knowledge.py that of what training knows much or little of.
all_rows.py adds the rows with unseen entities.
"""
