"""The formats in which a user may bring triples. A new format is one new file, which registers itself.

A file format (`FORMATS`: text.py, parquet.py, jsonl.py, sif.py, rdf.py) is known by the ending of a file's name. A
layout (`LAYOUTS`: numbered.py, triples_factory.py) is a folder whose files have fixed names, and whose triples consist
of ids. Every reader yields blocks of rows as text, so that no format keeps a whole file in memory.

base.py defines `Format`, `Layout` and `Block`, opens files and knows their formats. columns.py knows the columns of a
table.
"""
