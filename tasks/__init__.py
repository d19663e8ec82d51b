"""The work that flows run. stages/ has one file for each stage, jobs/ the work on many runs, tracking/ is the only
package that talks to MLflow, workspace/ holds the user's folder, environment and machine. Orchestration lives in
flows/, mathematics in kgcore/.
"""

import os

# torch reads this variable when it is imported, which happens later. Waiting OpenMP threads spin. Two trainings on the
# same cores then block each other: 20 to 160 ms per step instead of 10. Short spins do not slow a single training.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
