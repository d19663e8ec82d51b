"""The stages, one file each, in the order of the pipeline: load -> one kgcore call -> log -> return a StageRef."""

import os

# Read when torch is loaded, which is after this. OpenMP's threads spin while they wait; with two trainings on the same
# cores they then keep each other from working: 20 to 160 ms a step instead of 10. Short spins cost a lone run nothing.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
