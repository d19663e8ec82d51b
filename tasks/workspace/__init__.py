"""The user's folder, environment and machine. No file here reads or writes the runs of kgcal.

settings.py    the settings that the user makes with environment variables; the data sets on this machine
resources.py   cores, devices, the slot of the GPU; work in parts, here or on a Dask cluster
flow_run.py    the Prefect flow run of the calling code, its progress bars, and the Prefect server that the user names
services.py    the record of the services of `kgcal up`; checks of addresses and ports
"""
