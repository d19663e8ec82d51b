"""Training: from a graph and its settings to a trained model.

setup.py builds the components that the settings name. loop.py runs the epochs on a state (state.py), and batches.py
cuts an epoch into steps. step.py runs one step: corruptions.py draws its corruptions, tables.py holds the rows that it
updates, objective.py computes its loss, and regulariser.py has the penalty and the dropout. inverse.py adds inverse
predicates, and checkpoint.py stores a state. The package reads no data set and logs nothing.
"""
