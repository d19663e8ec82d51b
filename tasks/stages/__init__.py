"""The stages of the pipeline, one file each: load the artifacts of earlier stages, make one call into kgcore, log the
result, return a StageRef. table.py lists all stages in the order of the pipeline; base.py defines a stage and its
inputs; running.py has the key, the lock and the re-use of finished runs; reference.py has StageRef and Context; task.py
makes Prefect tasks. A stage's mathematics lives in kgcore/, the handles of its artifacts in tracking/artifacts.py, and
work on many runs (pipelines, searches, comparisons) in jobs/. The order of calls lives in flows/.
"""
