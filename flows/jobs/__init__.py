"""One file for each job: a Prefect flow, and what its command and its deployments need beside it.

flows/job.py finds the files. A new job is a file here, the file with its work in tasks/jobs/, and its test.
"""
