"""The jobs that make or read many runs: pipeline, recalibrate, tune, ensemble, reproduce, compare, promote, watch.

pipeline.py opens the run that the stages are nested under, and logs its manifest and summary. The helpers of the jobs:

exam.py           makes the exam of a data set, and adds field labels to it
candidates.py     finds the calibrators and ensembles that are judged on the exam
sitting.py        compares them with the champion on the exam
manifest.py       finds the run of a stage from a run id, a model's URI or `latest`
calibration_sample.py  finds the sample that a calibrator was fitted on
tuning_result.py  the result of a search
fitted_scores.py  fits calibrators to scores, measures and logs them, and applies one
command.py        writes settings as a command

A job returns facts whose method `result` says what users see: see kgcore/report/result.py. flows/cli/printer.py prints
it, and flows/job.py shows it in Prefect. Single stages are in stages/, the order of stages in flows/.
"""
