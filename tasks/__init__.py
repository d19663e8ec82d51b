"""What a flow runs. stages/ has one file a stage, jobs/ what makes or reads many runs, tracking/ is the only room that
talks to MLflow, workspace/ is the user's folder, environment and machine. Orchestration lives in flows/, mathematics in
kgcore/.
"""

import os

# Read when torch is loaded, which is after this. OpenMP's threads spin while they wait; with two trainings on the same
# cores they then keep each other from working: 20 to 160 ms a step instead of 10. Short spins cost a lone run nothing.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
