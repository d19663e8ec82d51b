"""The only room that talks to MLflow: the store, typed run records and artifact handles, keys, the model registry, and
links into the MLflow UI.
"""
