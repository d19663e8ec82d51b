"""Training of an embedding model on a graph.

setup.py     builds the model, the loss and the cohort from the settings
loop.py      runs the epochs; state.py holds everything that an epoch changes; checkpoint.py stores a state in a file
batches.py   divides an epoch into steps
step.py      runs one step: corruptions.py draws the corruptions, tables.py holds the embeddings that the step updates,
             neighbourhood.py finds the part of the graph that an encoder needs, objective.py computes the loss, and
             regulariser.py has the LP penalty and the dropout
inverse.py   adds the inverse predicates to a graph

The package reads no data set and logs nothing.
"""
