"""The user's folder, environment and machine. No file here reads or writes the runs of kgcal.

settings.py      the settings that the user makes with environment variables
catalogue.py     the registered data sets, and which of them are on this machine
resources.py     cores and devices
progress.py      progress bars
flow_run.py      the Prefect flow run of the calling code
services.py      the record of the services of `kgcal up`
network.py       checks of addresses and ports
sqlite_file.py   the creation of SQLite files
"""
