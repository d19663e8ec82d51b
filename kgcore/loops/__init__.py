"""Loops that Numba compiles: what vectorised code would do in several passes over memory, in one.

compiled.py  the decorators of all loops, their store, and prefetching
forests.py   bounds of sums of decision trees for all pairs of a tile
lookups.py   look-ups of integer keys
"""
