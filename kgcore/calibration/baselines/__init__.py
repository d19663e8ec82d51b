"""Baselines that calibrators are compared with. They fit nothing and cannot be chosen as calibrators."""
