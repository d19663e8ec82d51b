"""Training of an embedding model on a graph.

setup.py     builds the model, the loss and the cohort from the settings, and adds the inverse predicates to a graph
loop.py      runs the epochs; state.py holds everything that an epoch changes; checkpoint.py stores a state in a file
batches.py   divides an epoch into steps
step.py      runs one step: corruptions.py draws the corruptions, tables.py holds the embeddings that the step updates,
             and objective.py computes the loss, the LP penalty and the dropout

The package reads no data set and logs nothing.
"""
