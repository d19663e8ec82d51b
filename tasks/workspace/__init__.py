"""The user's folder, environment and machine: settings, data set catalogue, devices, progress bars, the Prefect flow
run of the calling code, the record of the services of `kgcal up`, and the creation of SQLite files. Nothing here
depends on kgcal runs.
"""
