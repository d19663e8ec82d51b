"""Optimisers of large tables. A new one is one new file here: a class of `RowOptimiser` that is registered by name.

base.py  what an optimiser is; Adam, with two moments for each number of a table; row-wise Adagrad, with one number for
         each row, so that tables of millions of entities fit into the memory
"""
