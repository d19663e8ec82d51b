"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

A strategy draws the entities that replace a subject or an object. Each strategy has its own file. base.py has the base
class of strategies, mixtures of them, and how often a corruption replaces the subject; choice.py has the base class of
strategies that use a model. every.py makes all corruptions of each positive, with their probabilities as weights, and
those that do not fit in memory, block by block. held_out.py decides whether to draw, and describes the corruptions in
numbers.
"""
