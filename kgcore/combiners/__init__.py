"""Combiners: they turn the evidence of a triple into log-odds. base.py says what a combiner is.

boosted_trees.py is the combiner that is fitted; stack.py and folded.py join fitted ones. forest.py bounds a sum of
trees for all pairs of a tile. cross_fit.py computes log-odds that are fair to the rows of the sample, and unlabelled.py
fits without labels. ablation.py measures what each group of evidence adds.

A combiner is fitted to the evidence of calibration triples. A calibrator then maps its log-odds to probabilities, as it
maps the scores of a model.
"""
