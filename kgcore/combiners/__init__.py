"""Combiners: they turn the evidence of a triple into log-odds. base.py says what a combiner is.

A combiner is fitted to the evidence of calibration triples. A calibrator then maps its log-odds to probabilities, as it
maps the scores of a model.
"""
