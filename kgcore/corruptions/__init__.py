"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

A strategy draws the entities that replace a subject or an object. Each strategy has its own file. base.py has the base
class of strategies, sides.py sets how often a corruption replaces the subject, mixture.py combines strategies,
choice.py has the base class of strategies that use a model, and audit.py describes the corruptions in numbers. every.py
makes all corruptions of each positive, with their probabilities as weights, and held_out.py decides whether to draw.
further.py makes those that do not fit in memory, block by block, and top.py keeps the highest scores of such a stream.
"""
