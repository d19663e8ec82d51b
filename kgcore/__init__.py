"""kgcal's library: knowledge graph embeddings, and the calibration that turns their scores into probabilities.

The library is pure and typed: no prefect, no mlflow, no environment variables, no global state. Read it in the order of
the pipeline: graph, datasets, models, losses, corruptions, training, score_table, ranking, calibration, metrics,
evaluation, report.
"""
