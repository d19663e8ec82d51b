"""Services for one person on one machine: a Prefect server, an MLflow server and a worker, by `kgcal up`.

up.py              start the services, in order, and create the deployments of prefect.yaml
down.py            end the worker's flow runs, and stop the services, in order
status.py          the state of services and flow runs, and the address of the local Prefect server
prefect_server.py  the Prefect server: its database, its start, its set-up; a client of it
recorder.py        the Prefect API that records flow runs while no Prefect server runs
processes.py       start a program in the background, wait for it, keep it, stop it

Shared Prefect servers are never modified. tasks/workspace/services.py records the started services. Other packages read
this record. The commands are in flows/cli/commands/services.py.
"""
