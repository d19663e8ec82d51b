"""The user's folder, environment and machine: settings, the data set catalogue, devices, progress bars, and the
services that `kgcal up` starts. Nothing here knows a run.
"""
