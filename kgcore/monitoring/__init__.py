"""Monitoring: the gate between challenger and champion (gate.py), and drift on newly labelled triples (drift.py)."""
