"""Graphs: what they are (graph.py), the data sets, and the formats of files."""
