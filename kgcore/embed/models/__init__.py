"""Scoring functions, one file each. base.py has their base classes, dot products and distances.

trained.py joins a scoring function and its trained tables, and cohort.py normalises scores by those of other objects.
scorer.py states what scores triples: a model, or an ensemble. kgcore/embed/training trains the models.
"""
