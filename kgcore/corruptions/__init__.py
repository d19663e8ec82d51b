"""Corruptions: triples made false by replacing the subject or the object.

One file a strategy, which says which entities may stand in; base.py is the contract, sides.py says which side is
replaced, mixture.py combines strategies, audit.py describes what was drawn.
"""
