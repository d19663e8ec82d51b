"""Corruptions: triples whose subject or object is replaced, so that they are most likely false.

A strategy draws the entities that replace a subject or an object. Each strategy has its own file. base.py has the base
class of strategies and how often a corruption replaces the subject, mixture.py combines strategies, choice.py has the
base class of strategies that use a model. every.py makes all corruptions of each positive, with their probabilities as
weights. held_out.py decides whether to draw, and describes the corruptions in numbers. further.py makes those that do
not fit in memory, block by block, and keeps the highest scores of this stream.
"""
