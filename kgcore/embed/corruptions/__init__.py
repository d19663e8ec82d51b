"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

A strategy draws the entities that replace a subject or an object. Each strategy has its own file. base.py has the base
class of strategies, mixtures of them, and how often a corruption replaces the subject; choice.py has the base class of
strategies that use a model. held_out.py draws the corruptions of the held-out splits, or makes all of them with their
probabilities as weights, block by block if they do not fit in memory, and describes them in numbers.
"""
