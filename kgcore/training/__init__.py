"""Training: from a graph and its settings to a trained model.

setup.py builds what the settings name, and loop.py runs the epochs on a state (state.py), which batches.py cuts into
steps. step.py runs one step: corruptions.py draws its corruptions, tables.py holds the rows that it updates,
objective.py is its loss, regulariser.py the penalty and the dropout. inverse.py adds inverse predicates, and
checkpoint.py stores a state. No data set is read here, and nothing is logged.
"""
