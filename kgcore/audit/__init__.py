"""The audit of stored facts: which training facts are probably wrong, and how many of them are.

folds.py   assigns the training facts to folds; a fold's facts are scored by a model that has not seen them
facts.py   scores the facts of a fold, and lists all facts from the least probable one
share.py   the share of wrong facts, from the probabilities alone
sample.py  the facts to label next, stratified by probability; the share of wrong facts, from the labels
labels.py  writes the facts to label, and reads them again with their labels
"""
