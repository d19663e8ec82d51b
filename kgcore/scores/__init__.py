"""Scores of triples: the table that calibration reads, and the search of high scores."""
