"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

Each strategy has a file and draws the replacing entities. base.py is the contract, sides.py determines the side to
replace, mixture.py combines strategies, choice.py is the base of strategies that use a model, and audit.py describes
the drawn corruptions.
"""
