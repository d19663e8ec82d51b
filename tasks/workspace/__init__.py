"""The user's folder, environment and machine: settings, data set catalogue, devices, progress bars, the Prefect flow
run of the calling code, the record of the services of `kgcal up`, and how SQLite files are created. Nothing here knows
a kgcal run.
"""
