"""The search for training settings: what is searched (space.py), by which figure (held_out.py, objective.py), and how
(search.py, study.py). It never reads the test split.
"""
