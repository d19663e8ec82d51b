"""Loops that Numba compiles for the CPU: what PyTorch would do in several passes over memory, in one.

The compiled code is stored on disk (`__pycache__`, or NUMBA_CACHE_DIR), so only the first training on a machine waits
for it, for about 20 seconds. Every loop has a plain form elsewhere, in PyTorch, which other devices use and which the
tests compare it with. Models and losses stay one expression: no formula is written here alone.

compiled.py    the decorators of all loops, and their store
prefetch.py    rows that the processor loads ahead
updates.py     the optimisers' updates of rows
queries.py     queries of models, and the gradients that pass through them
losses.py      losses and their gradients
chunks.py      comparisons of queries with the candidates that they share
rows.py        comparisons of queries with rows of a table where they are, and sums of gradients of equal rows
positives.py   the positives of a training step
steps.py       a whole training step
scores.py      scores of triples
tiles.py       distances between queries and tiles of entities, for ranks
gaussians.py   the divergence of KG2E
filters.py     ConvKB's scores
attention.py   KBGAT's attention over the neighbours of entities
forests.py     bounds of sums of decision trees for all pairs of a tile
lookups.py     look-ups of integer keys
"""
