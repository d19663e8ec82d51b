"""ensemble: pool several calibrated models of one data set, and measure the pool and its members."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EnsembleConfig, EvaluateConfig, TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError, MismatchError
from kgcore.measure.report.ensemble_summary import EnsembleSummary, MemberSummary, PooledSummary
from kgcore.measure.report.results import Results
from kgcore.registries import CALIBRATORS, METRICS, POOLS
from kgcore.scores.table import ScoreTable
from tasks.stages.calibrate import completeness_of, corruption_params, scores_of
from tasks.stages.evaluate import measure
from tasks.stages.running import Context, StageRef, StageRun, as_task, config_of, loss_of, run_stage
from tasks.tracking.artifacts import (
    CALIBRATOR,
    CORRUPTIONS,
    DISAGREEMENT,
    ENSEMBLE_MEASURED,
    ENSEMBLE_PREDICTIONS,
    ENSEMBLE_SUMMARY,
    GRAPH,
)
from tasks.tracking.keys import digest
from tasks.tracking.mlmodel import example_triples, log_pyfunc
from tasks.tracking.record import ENSEMBLE_NAME, RunTags, labelled_metrics
from tasks.tracking.store import Store, open_store

if TYPE_CHECKING:
    from kgcore.calibrate.calibrated import Calibrated
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.wings.ensembles.fit import JudgedEnsembles

CLASSIFY, EVALUATE = ClassifyConfig(), EvaluateConfig()  # every ensemble is evaluated with the default settings


class Member:
    """A calibrated model, given by its calibrate run.

    inputs     stage -> run id of all upstream runs
    train      settings of its training; the defaults if another library trained it
    loss       loss of its training, or `imported`
    model_id   id of the embedding model's LoggedModel
    dataset    the data set that it was trained on
    calibrate  settings of its calibration
    order      key to sort members by, so that the order in which a user names them has no effect

    Raises InputError if the run is not a finished calibrate run.
    """

    def __init__(self, store: Store, ref: StageRef) -> None:
        self.store, self.ref = store, ref
        self.run = store.finished(ref.stage, ref.run_id)
        self.inputs = self.run.tags.inputs
        trained = store.known(self.inputs["train"])
        [self.model_id], self.dataset = trained.model_ids, store.known(self.inputs["prepare"]).dataset
        self.train, self.loss = config_of(TrainConfig, trained), loss_of(trained)
        self.calibrate = config_of(CalibrateConfig, self.run).replace(completeness=completeness_of(self.run))
        self.order = (self.train.model, self.train.loss, self.train.seed, ref.run_id)

    def scores(self) -> ScoreTable:
        """Load the scores that its calibrators were fitted on, and its test scores.

        The rows of a search (kgcore/scores/search.py) differ between models: without them, all have the draws.
        """
        return scores_of(self.inputs, self.calibrate.completeness).without_search()

    def graph(self) -> KnowledgeGraph:
        """Load the graph that it was trained on."""
        return self.store.load(self.inputs["prepare"], GRAPH)


@as_task("ensemble_models")
def ensemble_models(runs: Sequence[StageRef], config: EnsembleConfig, context: Context = Context()) -> StageRef:
    """Pool the models of calibrate runs, and measure pools and models on the test split. Return the ensemble's run.

    runs  calibrate runs of at least two models, calibrated on the same corruptions; their order has no effect

    The run logs each fitted ensemble as a LoggedModel, an MLflow pyfunc as every calibrator is. Its artifacts are
    predictions.parquet, disagreement.parquet, measured.json, summary.json and figures/.

    Raises InputError or MismatchError, before a run is opened, if the models cannot form an ensemble.
    """
    from kgcore.wings.ensembles.fit import fit_ensembles, judge

    members = sorted((Member(open_store(), ref) for ref in runs), key=lambda member: member.order)
    check_members(members)
    names = member_names([member.train for member in members])
    first = StageRef("corrupt", members[0].inputs["corrupt"])
    calibrators = sorted({config.member_calibrator, config.recalibrator})
    code = ["kgcore.wings.ensembles.fit", "kgcore.measure.evaluation.evaluate", "kgcore.measure.report.plots"]
    code += [*map(POOLS.module, config.pools), *map(CALIBRATORS.module, calibrators)]
    code += [*map(METRICS.module, METRICS.names()), "kgcore.measure.report.ensemble_summary"]

    def body(run: StageRun) -> None:
        from kgcore.measure.evaluation.evaluate import miscalibrated
        from kgcore.measure.report.summary import briefs

        tables = [member.scores() for member in members]
        source, drawn = run.load(CORRUPTIONS)["valid"].source, run.config(CorruptConfig)
        calibrate, rng = members[0].calibrate, np.random.default_rng(config.fold_seed)
        ensembles = fit_ensembles(tables, source, drawn, calibrate, config, rng)
        judged = judge(ensembles, tables, names, calibrate.rate.value, CLASSIFY)
        measured = measure(run, judged.predictions, EVALUATE, CLASSIFY.tau)
        pooled, incomplete = {ensemble.label: ensemble for ensemble in ensembles}, bool(calibrate.completeness)
        wrong = miscalibrated(pooled, judged.predictions, measured, incomplete)
        summary = EnsembleSummary(
            dataset=run.dataset.name,
            members=tuple(_member(name, member) for name, member in zip(names, members, strict=True)),
            pools=tuple(config.pools),
            ensembles={ensemble.label: _pooled(ensemble, judged, names) for ensemble in ensembles},
            notes=tuple(judged.predictions.notes(calibrate.rate)),
            results=Results.of(measured),
            miscalibrated=wrong,
            briefs=briefs(pooled, judged.predictions, measured, wrong, incomplete),
        )
        _write(run, judged, measured, summary)
        models = _log_models(run, ensembles, members, names)
        run.log_model_metrics(
            {models[label]: labelled_metrics(label, result.with_ends()) for label, result in measured.items()}
        )
        rows = judged.predictions.rows_fingerprint()
        for ensemble in ensembles:
            label = ensemble.label
            run.log_metrics(labelled_metrics(label, asdict(judged.disputed[label])), model_id=models[label])
            params = _params(run, ensemble, members, names)
            run.log_measurement(params, measured[label].with_ends(), models[label], str(ensemble.rate), rows)

    identity = digest([settings.as_dict() for settings in (CLASSIFY, EVALUATE)])
    refs = [member.ref for member in members]
    return run_stage(ENSEMBLE_NAME, config, (first,), code, body, context, identity, refs)


def ensemble_summary(ref: StageRef) -> EnsembleSummary:
    """Return the results of an ensemble's run. Raises InputError if they are missing."""
    return replace(open_store().load(ref.run_id, ENSEMBLE_SUMMARY), run=ref.run_id)


def _member(name: str, member: Member) -> MemberSummary:
    train = member.train
    runs = (member.inputs["train"], member.ref.run_id)
    return MemberSummary(name, train.model, member.loss, train.seed, *runs, member.model_id)


def _pooled(ensemble: "Calibrated", judged: "JudgedEnsembles", names: Sequence[str]) -> PooledSummary:
    from kgcore.wings.ensembles.ensemble import pooling_of

    weights = dict(zip(names, pooling_of(ensemble).pool.weights.tolist(), strict=True))
    return PooledSummary(weights, judged.disputed[ensemble.label])


def _write(run: StageRun, judged: "JudgedEnsembles", measured: "dict[str, Measured]", summary: EnsembleSummary) -> None:
    from kgcore.measure.report.plots import reliability_figures

    run.save(ENSEMBLE_PREDICTIONS, judged.predictions)
    run.save(DISAGREEMENT, (judged.predictions.triples, judged.disagreement))
    run.save(ENSEMBLE_MEASURED, measured)
    run.save(ENSEMBLE_SUMMARY, summary)
    for name, figure in reliability_figures(measured).items():
        run.log_figure(name, figure)
    run.tag(RunTags(note=summary.result().markdown()))


def _log_models(
    run: StageRun, ensembles: "Sequence[Calibrated]", members: Sequence[Member], names: Sequence[str]
) -> dict[str, str]:
    """Log each ensemble as a LoggedModel. Return label -> id for ensembles and members.

    The id of a member is the id of its calibrator, or of its embedding model if that calibrator was not fitted.
    """
    from kgcore.wings.ensembles.ensemble import pooling_of

    models: dict[str, str] = {}
    for ensemble in ensembles:
        for name, member in zip(names, members, strict=True):
            fitted = pooling_of(ensemble).members[0].label
            calibrators = {run.store.model(model_id).label: model_id for model_id in member.run.model_ids}
            models.setdefault(f"{ensemble.negatives}.{name}", calibrators.get(fitted, member.model_id))
    examples = example_triples(members[0].graph())
    for number, ensemble in enumerate(ensembles):
        params = _params(run, ensemble, members, names)
        name = f"{params['dataset']}-{ENSEMBLE_NAME}-{ensemble.label}"
        model_id = run.log_model(CALIBRATOR, ensemble, name, params, number, label=ensemble.label)
        log_pyfunc(run.store, model_id, run.record, examples)
        models[ensemble.label] = model_id
    return models


def _params(
    run: StageRun, ensemble: "Calibrated", members: Sequence[Member], names: Sequence[str]
) -> dict[str, object]:
    """Return the parameters by which users compare an ensemble with other models."""
    params = {
        "calibrator": ensemble.shown_name,
        "negatives": ensemble.negatives,
        "base_rate": ensemble.base_rate,
        "model": ENSEMBLE_NAME,
        "loss": " ".join(sorted({member.loss for member in members})),
        "dataset": run.dataset.name,
        "members": " ".join(names),
    }
    return params | corruption_params(run) if ensemble.negatives == "synthetic" else params


def check_members(members: Sequence[Member]) -> None:
    """Check that members can form an ensemble.

    Raises InputError if there are fewer than two members or a model occurs twice. Raises MismatchError if members
    differ in data set, triples, corruptions, base rate, completeness or weighting.
    """
    if len(members) < 2:
        raise InputError(
            f"an ensemble needs at least two members, not {len(members)}: name the runs of two or more models"
        )
    first = members[0]
    models: dict[str, Member] = {}
    for member in members:
        twin = models.setdefault(member.store.model(member.model_id).fingerprint, member)
        if twin is not member:
            raise InputError(
                f"the runs {twin.ref.run_id} and {member.ref.run_id} have the same model: the members of an ensemble "
                "must be different models"
            )
    for member in members[1:]:
        if found := _difference(first, member):
            raise MismatchError(
                f"the runs {first.ref.run_id} and {member.ref.run_id} {found}: the members of an ensemble must "
                "be trained and calibrated on the same data in the same way"
            )


def _difference(first: Member, other: Member) -> str:
    """Return the first difference between two members that makes an ensemble impossible; '' if there is none."""
    one, two = first.dataset, other.dataset
    if one.name != two.name:
        return f"have the data sets {one.name} and {two.name}"
    if one.digest != two.digest:
        graph, graph_of_other = first.graph(), other.graph()
        if graph.training_fingerprint() != graph_of_other.training_fingerprint():
            return "have different training triples"
        same_test = graph.test_fingerprint() == graph_of_other.test_fingerprint()
        return "have different validation triples" if same_test else "have different test triples"
    rates = [member.calibrate.rate.value for member in (first, other)]
    weighted = [member.calibrate.weighted for member in (first, other)]
    for title, values in (("base_rate", rates), ("weighted", weighted)):
        if values[0] != values[1]:
            return f"were calibrated with {title} {values[0]} and {values[1]}"
    if first.calibrate.completeness != other.calibrate.completeness:
        return "were calibrated with different completeness"
    return "" if _same_corruptions(first, other) else "were calibrated on different corruptions"


def _same_corruptions(first: Member, other: Member) -> bool:
    if first.inputs["corrupt"] == other.inputs["corrupt"]:
        return True
    one, two = (member.store.load(member.inputs["corrupt"], CORRUPTIONS) for member in (first, other))
    return one.keys() == two.keys() and all(
        np.array_equal(getattr(one[split], name), getattr(two[split], name))
        for split in one
        for name in ("triples", "source", "weights")
    )


def member_names(trainings: Sequence[TrainConfig]) -> list[str]:
    """Return a distinct name for each member.

    The name is the model's. If two members have the same name, the loss, the seed or both are added to all names. If
    names still repeat, a number is added.
    """
    patterns = ("{0.model}", "{0.model}_{0.loss}", "{0.model}_seed_{0.seed}", "{0.model}_{0.loss}_seed_{0.seed}")
    for pattern in patterns:
        names = [pattern.format(training) for training in trainings]
        if len(set(names)) == len(names):
            return names
    return [f"{name}_{number}" for number, name in enumerate(names, start=1)]
