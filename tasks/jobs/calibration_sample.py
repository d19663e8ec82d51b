"""Finds the sample that a calibrator or an ensemble was fitted on."""

import numpy as np

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.fit import calibration_bases
from kgcore.calibration.sample import CalibrationSample, even_sample
from kgcore.config import CalibrateConfig
from kgcore.ensembles.ensemble import PooledModel, pooled_table
from kgcore.mixture.calibrate import candidate_sample
from kgcore.mixture.matched import Matched
from tasks.stages.calibrate import completeness_of, scores_of
from tasks.stages.running import config_of
from tasks.tracking.artifacts import COMBINED_MIXTURE, HELD_OUT_LOG_ODDS, MIXTURE
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store

SEED = 0  # of the draw of negatives


def counted_sample(model_id: str, model: CalibratedModel) -> CalibrationSample:
    """Return the sample of `calibration_sample` for methods that count its rows: see `even_sample`."""
    sample, rng = calibration_sample(model_id, model), np.random.default_rng(SEED)
    return even_sample(sample, rng, repeat=model.calibrator.mixture is None)


def calibration_sample(model_id: str, model: CalibratedModel) -> CalibrationSample:
    """Return the sample that a calibrator was fitted on. For a baseline: labelled triples, corruptions without labels.

    model_id  id of the LoggedModel of the calibrator or of the ensemble
    model     the calibrated model itself

    For an ensemble, the scores are those that it gives to these triples. Its recalibrator was fitted to log-odds of
    members that had not seen the triple, which differ a little. For a combiner, the scores are the log-odds of
    combiners that had not seen the triple.

    Raises InputError if a score run or a calibrate run upstream of the calibrator no longer exists.
    """
    store, scorer = open_store(), model.trained
    run = sources_of(store, model_id).run
    if isinstance(matched := model.calibrator.mixture, Matched):
        combined = model.calibrator.combined is not None
        place = (run.run_id, COMBINED_MIXTURE) if combined else (run.tags.inputs["match"], MIXTURE)
        return candidate_sample(store.load(*place), matched, model.calibrator.calibrator.by_predicate)
    made_by = (
        [run]
        if not isinstance(scorer, PooledModel)
        else [store.known(run.tags.inputs[f"calibrate.{number}"]) for number in range(1, len(scorer.members) + 1)]
    )
    tables = [scores_of(calibrated.tags.inputs, completeness_of(calibrated)) for calibrated in made_by]
    table = tables[0]
    if isinstance(scorer, PooledModel):
        table = pooled_table(scorer, [own.without_search() for own in tables])
    config, kind = config_of(CalibrateConfig, made_by[0]), model.calibrator.negatives
    bases = calibration_bases(table, config)
    kind = kind if kind in bases else min(bases)  # a baseline: labelled triples, or corruptions without labels
    if model.calibrator.combined is not None:
        return bases[kind].scored(store.load(run.run_id, HELD_OUT_LOG_ODDS)[model.calibrator.label]).sample
    return bases[kind].sample
