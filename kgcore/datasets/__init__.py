"""The data sets, each declared in one file, and the steps that turn a download into a `KnowledgeGraph`.

The steps, in order: fetch.py downloads or copies the files and verifies their checksums, read.py reads their text,
schema.py validates it, and prepare.py replaces names by numbers and counts. unknown_names.py has the message about
names that are not in the training split. labels.py adds newly labelled triples to a graph. genealogy.py generates the
`family` data set. blocks.py reads large tables block by block. base.py defines the declaration of a data set.
"""
