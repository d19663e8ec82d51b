"""Answers of a calibrated model to questions about triples: score, probability, interval, decision.

candidates.py  reads files of candidate triples, in blocks
answers.py     answers the triples of a block
sink.py        writes the answers to a file, in blocks
pairs.py       searches all pairs of subjects and objects of a predicate for the best ones
best.py        keeps the best of a stream of scored pairs

Memory is bounded by the size of a block. The calibrated model itself is kgcore/calibrated.py.
"""
