"""Conformal prediction: lists and answer sets with a guarantee that needs no model of the scores.

selection.py  p-values of candidates against negatives, and the list with a controlled share of false candidates
sets.py       answer sets that contain the true answer with a chosen probability

Pure functions of scores. kgcore/prediction/ finds the candidates and the queries.
"""
