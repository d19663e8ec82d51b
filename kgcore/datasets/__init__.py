"""The data sets, each declared in one file, and the steps that turn a download into a `KnowledgeGraph`.

The steps, in order: fetch.py downloads or copies the files and verifies their checksums, read.py reads their text,
schema.py validates it, and prepare.py replaces names by numbers and counts. labels.py adds newly labelled triples to a
graph. genealogy.py generates the `family` data set.
"""
