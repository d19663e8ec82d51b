"""The data sets, each declared in one file, and the steps that turn a download into a `KnowledgeGraph`.

The steps, in order: fetch.py downloads or copies the files and verifies their checksums, read.py reads their text,
schema.py validates it, and prepare.py replaces names by numbers and counts. unknown_names.py has the message about
names that are not in the training split. labels.py adds newly labelled triples to a graph; label_halves.py divides them
between calibration and the exam. genealogy.py generates the `family` data set. base.py defines the declaration of a
data set.
"""
