"""The paper's published figures, to hold results against (paper.py)."""
