"""The data sets, each declared in one file, and the steps that turn a download into a `KnowledgeGraph`.

The steps, in order: fetch.py downloads or copies the files and verifies their checksums, or paths.py finds a user's own
files. read.py reads them by the readers in formats/, schema.py validates the rows, and numbering.py replaces names by
numbers. draw.py splits a graph that comes without splits. prepare.py checks, counts and makes the graph;
counts.py compares the counts with the declared ones.

unknown_names.py has the message about names that are not in the training split, and unseen.py reads the rows with such
entities. labels.py adds newly labelled triples to a graph; label_halves.py divides them between calibration and the
exam. genealogy.py generates the `family` data set. base.py defines the declaration of a data set.
"""
