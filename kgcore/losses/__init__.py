"""Training losses, one file each; base.py is the contract. A loss takes scores: it knows no model and no graph."""
