"""Data sets, one declarative file each, and the steps from a public host to a `KnowledgeGraph`.

fetch.py (download or mirror, checksums) -> read.py (text) -> schema.py (validation) -> prepare.py (numbers, counts).
labels.py adds newly labelled triples to a graph; genealogy.py generates the `family` data set.
"""
