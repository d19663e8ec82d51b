"""The jobs that make or read many runs: pipeline, recalibrate, tune, ensemble, reproduce, compare, promote, watch.

pipeline.py opens the run that the stages are nested under, and logs its manifest and summary. The helpers of the jobs:

find_model.py        finds the calibrated model that answers, and the sample that it was fitted on
request.py           who answers a question, and to which candidates the answer is calibrated
prediction.py        the MLflow run of a prediction, and its summary
exam.py              the exam of a data set: its versions, the candidates that sit it, and their comparison
manifest.py          finds the run of a stage from a run id, a model's URI or `latest`

A job returns facts whose method `result` says what users see: see kgcore/measure/report/result.py.
flows/cli/terminal.py prints it, and flows/job.py shows it in Prefect. Single stages are in stages/, the order of
stages in flows/.
"""
