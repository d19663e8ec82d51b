"""Calibration of scores from any scorer outside kgcal: a rule miner, a language model, a search engine. No graph.

tables.py      reads tables block by block
columns.py     the columns of a table as numbers, labels and names, with a sentence for every wrong value
rows.py        labelled scores, in an order that does not depend on the file
read.py        reads a file of labelled scores
calibrator.py  a fitted calibrator, bound to its scorer and to the rows that it was fitted on
fit.py         fits the calibrators
again.py       the rows to fit to again, after newly labelled rows have shown drift
measure.py     probabilities to measure: of test rows, or by cross-fitting
answers.py     gives the rows of a table probabilities with intervals
"""
