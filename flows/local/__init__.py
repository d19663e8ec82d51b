"""Services for one person on one machine: a Prefect server, an MLflow server and a worker, by `kgcal up`.

up.py                start the services, in order
down.py              stop the services, in order
status.py            the state of services and flow runs, and the address of the local Prefect server
mlflow_server.py     start the MLflow server
prefect_server.py    start the Prefect server; make a client of it
recorder.py          the Prefect API that records flow runs while no Prefect server runs
prefect_database.py  create the Prefect server's SQLite database
prefect_setup.py     create the work pool, the GPU limit and the automation that the server needs
deploy.py            create the deployments of prefect.yaml
worker.py            start the worker
active.py            the worker's flow runs that have not ended
flow_runs.py         cancel and end these runs
processes.py         start a program in the background, wait for it, keep it, stop it

Shared Prefect servers are never modified. tasks/workspace/services.py records the started services. Other packages read
this record. The commands are in flows/cli/commands/services.py.
"""
