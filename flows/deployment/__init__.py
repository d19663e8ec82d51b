"""Turn flows into Prefect deployments. flows/job.py has the jobs, which state their deployments.

deployments.py  makes prefect.yaml
parameters.py   the types of the form fields
names.py        names of flow runs
publish.py      the results that a flow run shows in the Prefect UI

flows/local/up.py sends the deployments to the server of `kgcal up`.
"""
