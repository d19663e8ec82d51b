"""choose: choose the model and its training settings for a graph by a race on the validation split.

The stage train goes on from the checkpoint of the chosen contender, so that nothing is trained twice.
"""

import logging
import math
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from kgcore.config import ChooseConfig, TrainConfig
from kgcore.config.race import DECIDES, RaceConfig, entries
from kgcore.errors import InputError
from kgcore.measure.report.race import Race, RaceRow, contenders_text, race_table
from kgcore.registries import BACKENDS, LOSSES, MODELS, OPTIMISERS, STRATEGIES
from kgcore.workers import find_device
from tasks.stages.prepare import PREPARE
from tasks.stages.running import IMPORTED, Stage, StageRef, StageRun, as_task, config_of, loss_of
from tasks.stages.train import handed_over, training_key
from tasks.tracking.artifacts import CHOSEN, GRAPH_WITHOUT_TEST, RACE, RACE_TABLE
from tasks.tracking.record import TRAINING, RunRecord, RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import gpu_slot
from tasks.workspace.settings import checkpoint_seconds

if TYPE_CHECKING:
    from kgcore.data.graph import KnowledgeGraph

log = logging.getLogger("kgcal")
ANY = (1_000, 100, 10)  # sizes of a graph, for the code of the portfolio


def _settle(config: ChooseConfig, upstream: object) -> RaceConfig:
    """Return the settings of a race. A single stage has those of a pipeline in which the user gives nothing else."""
    return config if isinstance(config, RaceConfig) else RaceConfig(**vars(config))


def _code(config: ChooseConfig) -> tuple[str, ...]:
    race = _settle(config, ())
    found = entries(race, *ANY, confidences=True).values()
    strategies = {name for one in found for name in one.training_strategy} | set(race.negatives.calibration_strategy)
    modules = {*(MODELS.module(one.model) for one in found), *(LOSSES.module(one.loss) for one in found)}
    modules |= {OPTIMISERS.module(one.optimiser) for one in found} | set(map(BACKENDS.module, BACKENDS.names()))
    return (
        "kgcore.wings.tuning.race",
        "kgcore.config.race",
        *sorted(modules),
        *sorted(map(STRATEGIES.module, strategies)),
    )


def _body(run: StageRun, config: ChooseConfig) -> None:
    assert isinstance(config, RaceConfig)
    graph = run.load(GRAPH_WITHOUT_TEST)
    result = _race(run, config, graph)
    run.save(RACE, result)
    run.save(RACE_TABLE, race_table(result))
    run.save(CHOSEN, dict(result.winner.settings))
    run.tag(RunTags(note=contenders_text(result)))
    for row in result.rows:
        _log_contender(run, row, config.race_metric)
    if result.winner.value is not None:
        run.log_metrics({config.race_metric: result.winner.value, "contenders": len(result.rows)})
    for sentence in result.sentences():
        log.info("choose    %s", sentence)


def _race(run: StageRun, config: RaceConfig, graph: "KnowledgeGraph") -> Race:
    """Run the race, and hand the winner's checkpoint over to the stage train."""
    from kgcore.wings.tuning.race import Track, choose  # loads torch

    def on_measured(row: RaceRow) -> None:
        told = row.reason or f"{config.race_metric} {row.value:.4f}"
        log.info("choose    %s, epoch %d of %d: %s", row.name, row.epochs, row.of, told)

    folder = run.store.home / "checkpoints" / run.key
    with gpu_slot(find_device(run.context.device)) as device, progress_bar("choose", 100) as bar:
        track = Track(device, folder, 60 * config.minutes or math.inf, checkpoint_seconds())
        result, checkpoint = choose(
            graph, config, track, lambda share, word: bar(round(100 * share), word), on_measured
        )
    if checkpoint.exists():
        target = handed_over(run.store, training_key(TrainConfig(**result.winner.settings), graph))
        target.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.replace(target)
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _log_contender(run: StageRun, row: RaceRow, metric: str) -> None:
    """Log a contender as a run that is nested under this run, with its metric by epoch."""
    tags = RunTags(stage="contender", parent=run.run_id, state=row.state, note=row.reason or None)
    with run.store.open_run(f"contender {row.name}", tags) as run_id:
        run.store.log_params(run_id, dict(row.settings) | {"contender": row.name})
        run.store.log_dataset(run_id, run.dataset, run.dataset.name, {}, TRAINING)
        for epoch, value in row.values:
            run.store.log_metrics(run_id, {metric: value}, epoch, dataset=run.dataset)
        run.store.log_metrics(run_id, {"seconds": row.seconds, **row.figures})


CHOOSE = Stage(
    name="choose",
    summary="Choose the model and its training settings for the graph of a prepare run, by a race on validation.",
    title="choose settings for {data}",
    config=ChooseConfig,
    body=_body,
    code=_code,
    settle=_settle,
    inputs={"data": PREPARE},
    on_device=True,
)


@as_task("chosen_settings")
def chosen_settings(choice: StageRef) -> TrainConfig:
    """Return the training settings that a choose run has chosen."""
    return TrainConfig(**open_store().load(choice.run_id, CHOSEN))


@as_task("raced_settings")
def raced_settings(data: StageRef, given: TrainConfig, usual: TrainConfig) -> TrainConfig:
    """Return the training settings that the newest race on the graph of a prepare run has chosen, with the given ones.

    given  settings of the user. If they name another model or loss than the race has chosen, the result is `usual`
    usual  settings without a race
    """
    store = open_store()
    for choice in choices_for(store, data.run_id)[:1]:
        chosen = TrainConfig(**store.load(choice, CHOSEN))
        if all(getattr(chosen, name) == value for name, value in given.given().items() if name in DECIDES):
            log.info("tune      starts with %s %s, which the race has chosen", chosen.model, chosen.loss)
            return given.over(chosen)
    return usual


def race_of(store: Store, train: RunRecord) -> Race | None:
    """Return the newest race on the graph of a train run that chose its settings; None if there is none.

    If the train run has adopted its model, the graph is that of the run that trained it, if that run still exists.
    """
    with suppress(InputError):  # the run that trained the model was deleted
        while train.tags.adopted:
            train = store.get(train.tags.adopted)
    for choice in choices_for(store, train.tags.inputs.get("prepare", "")):
        if loss_of(train) != IMPORTED and config_of(TrainConfig, train) == TrainConfig(**store.load(choice, CHOSEN)):
            return store.load(choice, RACE)
    return None


def choices_for(store: Store, data: str) -> list[str]:
    """Return the ids of the finished choose runs of a prepare run, the newest one first."""
    found = store.find(RunTags(stage="choose", inputs={"prepare": data}), newest=10)
    return [run.run_id for run in found if store.complete(run)]


@as_task("best_settings")
def best_settings(choice: StageRef, number: int) -> list[TrainConfig]:
    """Return the training settings of the best `number` contenders of a choose run, those of the chosen one first.

    Contenders that failed are left out, so there may be fewer. Raises InputError if there are fewer than two.
    """
    race = open_store().load(choice.run_id, RACE)
    if len(race.healthy) < 2:
        found = f"there was no race: {race.no_race}" if race.no_race else "all other contenders of the race failed"
        raise InputError(f"{found}, so there is one model: an ensemble has at least two")
    if len(race.healthy) < number:
        log.warning("ensemble  %d contenders have not failed: the ensemble has %d models", *2 * [len(race.healthy)])
    return [TrainConfig(**row.settings) for row in race.healthy[:number]]
