"""Scoring functions, one file each. base.py has their base classes, comparators.py has dot products and distances.

trained.py joins a scoring function and its trained tables, cohort.py normalises scores by those of other objects, and
inverse.py scores a triple in both directions. blocks.py keeps a score independent of the triples beside it. scorer.py
and pointwise.py state what scores triples: a model, or an ensemble. kgcore/training trains the models.
"""
