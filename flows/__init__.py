"""Orchestration: which stage follows which. Each file here is a Prefect flow, or several of one topic; deployment/ is
what makes them deployments, cli/ the `kgcal` command, local/ the services of `kgcal up`. No mathematics, no MLflow.
"""
