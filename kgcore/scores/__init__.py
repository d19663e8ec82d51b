"""Scores of triples: table.py has what calibrators are fitted to, search.py finds corruptions with high scores."""
