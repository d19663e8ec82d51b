"""Training of an embedding model on a graph.

loop.py       builds the model and the loss, runs the epochs, and stores what they change in checkpoints
batches.py    divides an epoch into steps, and draws the corruptions of a step
step.py       runs one step on the tables of embeddings
objective.py  computes the loss of a step, its LP penalty and its dropout

The package reads no data set and logs nothing.
"""
