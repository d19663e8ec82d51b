"""Scores from any scorer outside kgcal: a rule miner, a language model, a search engine. No graph.

A file of labelled scores is a score table; its calibrators are fitted and measured as those of a graph are.

tables.py      reads tables block by block, with a sentence for every wrong value
rows.py        reads labelled scores as a score table, and makes the tables to fit to again after drift
calibrator.py  a fitted calibrator, bound to its scorer and to the rows that it was fitted on, and its answers
fit.py         fits the calibrators, and measures them on other rows
"""
