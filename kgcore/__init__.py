"""kgcal's library: knowledge graph embeddings whose scores become probabilities.

Pure and typed: no prefect, no mlflow, no environment variables, no global state. Read it in the order of
the pipeline: graph, datasets, models, losses, corruptions, training, scoring, ranking, calibration, metrics, report.
"""
