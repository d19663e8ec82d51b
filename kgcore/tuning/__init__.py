"""The search for training settings. It never reads the test split.

space.py: which settings are searched, within which ranges; held_out.py and objective.py: the figure that a search
improves; search.py: the trials; study.py: the file that keeps them; record.py: where a trial's progress goes.
"""
