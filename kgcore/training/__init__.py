"""Training: the loop (loop.py), its optimiser (adam.py) and its checkpoints (checkpoint.py)."""
