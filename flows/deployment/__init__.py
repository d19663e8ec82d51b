"""Turn flows into Prefect deployments. The flows are in flows/*.py.

deployments.py  the list of deployments with their schedules; makes prefect.yaml. Stages come from tasks/stages/table.py
parameters.py   the types of the form fields
names.py        names of flow runs
runners.py      Prefect task runners by name
approval.py     the question whether a challenger becomes the champion
publish.py      the results that a flow run shows in the Prefect UI

flows/local/deploy.py sends the deployments to the server of `kgcal up`.
"""
