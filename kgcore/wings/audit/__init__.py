"""The audit of stored facts: which training facts are probably wrong, and how many of them are.

plan.py        plants errors among the training facts, divides both into folds, and gives each fold's model its graph
likelihood.py  the scores by models that have seen a fact and by the one that has not, what they say, and the facts
               from the least probable one
sample.py      the share of wrong facts, from planted errors or labels; the facts to label next, and their file
"""
