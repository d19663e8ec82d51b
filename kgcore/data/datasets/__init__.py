"""The data sets, and the steps that turn a download into a `KnowledgeGraph`. published.py declares the public ones.

The steps, in order: fetch.py downloads or copies the files and verifies their checksums, or base.py finds a user's own
files. read.py reads them by the readers in formats/ and replaces names by numbers, and schema.py validates the rows.
draw.py splits a graph that comes without splits. prepare.py checks the counts, makes the graph and says which names are
not in the training split.

labels.py adds newly labelled triples to a graph, and divides them between calibration and the exam. base.py defines the
declaration of a data set.
"""
