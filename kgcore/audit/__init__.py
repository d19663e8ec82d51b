"""The audit of stored facts: which training facts are probably wrong, and how many of them are.

folds.py       assigns the training facts to folds
plan.py        plants errors among the training facts, and gives each fold's model its graph
row_scores.py  the scores by models that have seen a fact, and by the one that has not
likelihood.py  what these scores say, learned from the planted errors
share.py       the share of wrong facts, from the planted errors
facts.py       lists the facts from the least probable one
sample.py      the facts to label next, stratified by probability; the share of wrong facts, from the labels
labels.py      writes the facts to label, and reads them again with their labels
"""
