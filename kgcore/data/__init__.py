"""Graphs: how a file of triples becomes a graph.

graph.py         KnowledgeGraph: names, splits, labels
datasets         the data sets: download, reading, checks, splits
formats          one file for each format of triples
completeness.py  which share of the true facts the graph knows, as the user states it
"""
