"""Scoring functions, one file each. base.py has their base classes, comparators.py has dot products and distances.

chunks.py compares queries with shared corruptions in training, and rows.py with rows of a table. tiles.py computes
distances in the CPU's cache, and queries.py prepares triples for ranking by tiles. attention.py sums over the
neighbours of entities. trained.py joins a scoring function and its trained tables, cohort.py normalises scores by those
of other objects, and inverse.py scores a triple in both directions. kgcore/training trains the models.
"""
