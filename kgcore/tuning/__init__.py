"""The search for training settings. It never reads the test split.

space.py: the searched settings and their ranges; held_out.py and objective.py: the figure that a search improves;
search.py: the trials; study.py: the file with the trials; record.py: the receiver of a trial's progress.
"""
