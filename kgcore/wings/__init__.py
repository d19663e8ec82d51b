"""Capabilities beside the core, which register themselves or are called by jobs.

Of the core, only embed/models/trained.py and embed/ranking.py import one: the loops of fast_cpu that score and rank.

fast_cpu, fast_gpu  backends: loops for the CPU, recorded steps for a GPU
ensembles           pools of calibrated models
external            calibrators of the scores of any other scorer
imports             models of other libraries
audit               wrong facts among those of the graph
monitoring          the exam of champions, the gate, drift
tuning              the race of the preset `auto`, the search for settings
reproduction        the paper's figures, tables and page
"""
