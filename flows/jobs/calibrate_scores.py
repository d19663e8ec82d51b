"""The Prefect flow that calibrates the scores of any scorer."""

from flows.flow import flow
from flows.job import Argument, job, publish
from kgcore.config import EvaluateConfig, ScoresConfig
from tasks.jobs.calibrate_scores import ScoresRequest, ScoresResult
from tasks.jobs.calibrate_scores import calibrate_scores as run_calibration
from tasks.jobs.watch import WatchResult


@job(shown={"file": Argument("[FILE]")})
@flow(name="calibrate-scores")
def calibrate_scores(
    file: str = "",
    apply: str = "",
    output: str = "",
    model: str = "",
    calibrator: str = "",
    promote: bool = False,
    watch: bool = False,
    recalibrate: bool = False,
    config: ScoresConfig = ScoresConfig(),
    evaluate: EvaluateConfig = EvaluateConfig(),
) -> ScoresResult | WatchResult:
    """Turn the scores of any scorer, such as a rule miner or a language model, into probabilities.

    No graph is needed. Calibrators are fitted to a file of scores with labels, and measured on rows that they were not
    fitted on. With --apply, the rows of another file get probabilities with intervals. With --model and no labelled
    scores, a stored calibrator gives these probabilities. With --watch, a stored calibrator is checked for drift.

    Args:
        file: file of labelled scores with a header (.csv, .tsv, .txt, .parquet)
        apply: file of scores, with or without labels, whose rows get probabilities
        output: file for the rows of --apply with the columns probability, low and high (.parquet, .csv or .tsv)
        model: stored calibrator to use instead of a fit: model URI, run id of calibrate-scores, or latest
        calibrator: calibrator to use, such as beta; if empty, the one with the best Brier score
        promote: register the calibrator, and make it the champion of its scorer if it passes the gate of `promote`
        watch: check a stored calibrator, by default the champion of the scorer, on newly labelled rows, and fit none
        recalibrate: with --watch, if the check finds drift: fit calibrators again, and make the best one the champion
            if it passes the gate of `promote`
        config: the columns, the calibrators and the folds
        evaluate: how the probabilities are measured
    """
    request = ScoresRequest(file, apply, output, model, calibrator, promote, watch, recalibrate)
    return publish(run_calibration(request, config, evaluate))
