"""Data sets, one declarative file each, and the way from a public host to a `KnowledgeGraph`:

fetch.py (download or mirror, checksums) -> read.py (text) -> schema.py (validation) -> prepare.py (numbers, counts)
"""
