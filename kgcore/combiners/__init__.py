"""Combiners: they turn the evidence of a triple into log-odds. base.py says what a combiner is.

boosted_trees.py is the combiner that is fitted; stack.py and folded.py join fitted ones. trees.py holds decision trees
as arrays, and shapley.py divides their sum among the features. folds.py divides a sample, and cross_fit.py computes
log-odds that are fair to its rows. ablation.py measures what each group of evidence adds.

A combiner is fitted to the evidence of calibration triples. A calibrator then maps its log-odds to probabilities, as it
maps the scores of a model.
"""
