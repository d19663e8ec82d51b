"""The search for training settings. It never reads the test split.

space.py      the settings that a search may change, and their ranges
held_out.py   the validation triples that measure a trial, and their probabilities
objective.py  the metric that a search optimises
search.py     the loop that runs the trials
study.py      the file that stores the trials
race.py       the race of the preset `auto`: successive halving; race_notes.py has the file from which a race continues,
              race_result.py its result
record.py     the interface that receives the progress of a trial
"""
