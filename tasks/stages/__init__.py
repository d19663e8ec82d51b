"""The stages of the pipeline, one file each. A stage loads the artifacts of earlier stages, calls kgcore, logs the
result and returns a StageRef. The other files:

table.py      all stages, in the order of the pipeline
running.py    StageRef and Context; the definition of a stage, its key, its lock, the re-use of finished runs; the
              decorator for Prefect tasks

The functions import the parts of kgcore that compute, which load SciPy, scikit-learn, pandera or torch. So a pipeline
whose stages are all re-used loads none of these.

A stage's mathematics is in kgcore/, the handles of its artifacts in tracking/artifacts.py, work on many runs
(pipelines, searches, comparisons) in jobs/, and the order of calls in flows/.
"""
