"""`kgcal up`, `down` and `status`: a Prefect server, an MLflow server and a worker for one person on one machine."""
