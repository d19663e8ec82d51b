"""Functions that read and write artifacts in fixed formats, without pickle.

tables.py      rows of numbers as parquet; the trials of a search as CSV
folders.py     models and calibrators as folders, with safetensors for tensors; graphs as folders of tables; JSON, and
               the version number of all formats

A `write_` function stores an object at a path, and its `read_` function returns an equal object. The modules load
nothing that computes: their functions import the classes of what they read. The types of candidates, evidence and other
later rooms have their formats themselves, and are registered in `STORED` of kgcore/registries.py.
"""
