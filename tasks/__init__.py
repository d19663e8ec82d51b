"""The work that flows run, in five packages:

stages     one file for each stage of the pipeline
jobs       work that makes or reads many runs, such as searches and comparisons
tracking   the only package that talks to MLflow
serving    the web server of `kgcal serve`
workspace  the user's folder, environment and machine

The order of the work is in flows/, the mathematics in kgcore/.
"""

import os

# An OpenMP thread that waits keeps its core busy. If it does so for long, two trainings on the same cores block each
# other: a step takes 20 to 160 ms instead of 10. This variable makes the busy wait short, which does not slow a single
# training. torch reads the variable on import, so this line must run before torch is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
