"""Training losses, one file each; base.py is the contract. A loss takes scores, and uses no model and no graph."""
