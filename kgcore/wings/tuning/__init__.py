"""The search for training settings. It never reads the test split.

space.py        the settings that a search may change, and their ranges
objective.py    the metric that a search optimises, and the validation triples that measure it
search.py       the loop that runs the trials; record.py: the interface that receives their progress
study.py        the file that stores the trials
race.py         the race of the preset `auto`: successive halving; kgcore/measure/report/race.py has its result
"""
