"""kgcal's library: knowledge graph embeddings, and the calibration that turns their scores into probabilities.

Pure and typed: no prefect, no mlflow, no environment variables, no global state. The order of the pipeline is the
order for a reader: graph, datasets, models, losses, corruptions, training, score_table, ranking, calibration, metrics,
evaluation, report.
"""
