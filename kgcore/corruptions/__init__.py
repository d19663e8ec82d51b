"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

Each strategy has a file, which decides the replacing entities. base.py is the contract, sides.py decides which side is
replaced, mixture.py combines strategies, choice.py is the base of strategies that draw by a model, and audit.py
describes the corruptions that were drawn.
"""
