"""Combiners: they turn the evidence of a triple into log-odds. base.py says what a combiner is, stored and as a scorer.

boosted_trees.py is the combiner that is fitted; joined.py has those that are made of fitted ones. forest.py bounds a
sum of trees for all pairs of a tile. ablation.py measures what each group of evidence adds.

A combiner is fitted to the evidence of calibration triples. A calibrator then maps its log-odds to probabilities, as it
maps the scores of a model: fit.py fits both, and puts all calibrators of a run in the order in which they answer.
unlabelled.py fits a combiner without labels. unseen.py answers about triples with entities that training has not seen,
from their names. hidden.py learns evidence about hidden facts.
"""
