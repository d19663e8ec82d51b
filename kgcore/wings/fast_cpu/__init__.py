"""A backend for the CPU: loops that Numba compiles, which do in one pass what PyTorch does in several over memory.

It is chosen whole, in three functions: `CpuBackend` for a training, `fast_scores` for the scores of triples, and
`tiling_of` for ranks and the scores of all pairs. Models and losses do not know of it: it knows them by name, and has
their formulas again as loops. The tests compare these with the formulas.

training.py     a step: its jobs for threads, and the updates of the tables
steps.py        the loop over the positives of a step
comparisons.py  comparisons of queries with candidates and with rows of a table, and their gradients
losses.py       losses and their gradients
updates.py      the optimisers' updates of rows, and sums of gradients of equal rows
gaussians.py    KG2E: the step, and the divergences of a tile
scores.py       scores of triples, comparisons of queries with tiles of entities, and ranks, counted tile by tile
"""
