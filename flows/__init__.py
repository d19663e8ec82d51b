"""Orchestration: the Prefect flows (pipeline.py, stages.py) and the command line (cli.py)."""
