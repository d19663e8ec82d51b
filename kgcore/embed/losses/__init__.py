"""Training losses, one file each. base.py has their base class. A loss needs only scores, no model and no graph."""
