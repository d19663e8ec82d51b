"""One new file of each kind, as a user would write it. Tests make the files part of the packages.

models, losses, calibration, corruptions, datasets, metrics  joined to the packages of kgcore by their search path
stages                                                       copied into tasks/stages, with an entry in the table
"""
