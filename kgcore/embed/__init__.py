"""Embedding models: formulas, losses, optimisers, corruptions and training, and the ranks of facts by their scores."""
