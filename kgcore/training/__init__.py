"""Training: the loop, the corruptions of a step, the regularisers and the checkpoints."""
