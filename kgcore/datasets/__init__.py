"""The data sets, each declared in one file, and the steps that turn a download into a `KnowledgeGraph`.

fetch.py (download or mirror, checksums) -> read.py (text) -> schema.py (validation) -> prepare.py (numbers, counts).
labels.py adds newly labelled triples to a graph; genealogy.py generates the `family` data set.
"""
