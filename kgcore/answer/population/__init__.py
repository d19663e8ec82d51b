"""Populations: the candidates that a question asks about, and calibration to them.

A probability is the share of true triples among candidates like this one. So a question about missing facts needs a
calibrator that is fitted to the missing facts, not to corruptions.

* population.py    the candidates of a question: all pairs of some subjects and objects, known facts left out; and how
                   many of them are true: from the completeness of the graph, or from a stated base rate
* draw.py          draws candidates with weights, so that the top of a list is there in full
* survey.py        weighs the evidence about the drawn candidates, with the facts of validation as positives
* curve.py         the map from log-odds of evidence to probabilities, without labels
* fit.py           a calibrator of the population, and the number of true facts in a list
* calibration.py   a calibrated model of the population, and its lists
* lists.py         who answers the triples of a file: the stored calibrator, one that is fitted to its rows, or nobody;
                   tables of missing facts and of the answers to a query, with flags; what explains them
* likeness.py      whether the rows of a file are like the calibration triples

docs/explanation/population.md explains the method.
"""
