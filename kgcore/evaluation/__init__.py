"""Evaluation on the test split: probabilities and decisions (predictions.py), and what they are worth (evaluate.py, and
by_relation.py for each relation).
"""
