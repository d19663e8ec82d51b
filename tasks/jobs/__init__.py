"""The jobs that make or read many runs: pipeline, recalibrate, tune, ensemble, reproduce, compare, promote, watch.
manifest.py finds the run that a person names, and resolves `latest`; pipeline.py opens the run that stages are nested
under, and logs its manifest and summary; members.py checks that the members of an ensemble belong together; trials.py
logs the trials of a search; command.py writes settings as a command. A single stage lives in stages/, the order of
stages in flows/, tables for the terminal in flows/cli/tables/.
"""
