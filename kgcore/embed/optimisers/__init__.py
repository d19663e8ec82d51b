"""Optimisers of large tables. A new one is one new file here: a class of `RowOptimiser` that is registered by name.

base.py     what an optimiser is
adam.py     Adam: two moments for each number of a table
adagrad.py  row-wise Adagrad: one number for each row, so that tables of millions of entities fit into the memory
"""
