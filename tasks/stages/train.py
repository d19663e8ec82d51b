"""train: train the embedding model, or adopt a finished model with the same settings and training triples.

To adopt a model is to copy it from a finished run to a new run. An interrupted training resumes from its checkpoint,
and a training that the race of the stage choose has begun goes on from there.
"""

import logging
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from kgcore.config import TrainConfig
from kgcore.config.jobs import ImportedModel
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import MismatchError
from kgcore.registries import BACKENDS, LOSSES, MODELS, OPTIMISERS, STRATEGIES
from kgcore.workers import find_device
from tasks.stages.prepare import PREPARE
from tasks.stages.running import IMPORTED, Context, Stage, StageRef, StageRun, as_task, config_of, loss_of, run_stage
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH
from tasks.tracking.keys import code_fingerprint, digest
from tasks.tracking.machine import system_metrics
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import SeriesLog, console, progress_bar
from tasks.workspace.resources import DASK, check_room, cores, free_memory, gpu_slot, workers
from tasks.workspace.settings import checkpoint_seconds, own_database, own_uri, tracking_uri, wants_system_metrics

PRINT_SECONDS = 30.0  # between two lines of progress without a terminal
LOSS_SECONDS = 2.0  # shortest time between two writes of the losses to MLflow
log = logging.getLogger("kgcal")


def _code(config: TrainConfig) -> tuple[str, ...]:
    parts = (MODELS.module(config.model), LOSSES.module(config.loss), OPTIMISERS.module(config.optimiser))
    strategies = (STRATEGIES.module(name) for name in config.training_strategy)
    loop = "kgcore.wings.partitions" if config.partitions > 1 else "kgcore.embed.training.loop"
    return (loop, *map(BACKENDS.module, BACKENDS.names()), *parts, *strategies)


def _body(run: StageRun, config: TrainConfig) -> None:
    """Adopt the model of a finished run with the same settings and training triples; if there is none, train."""
    from kgcore.embed.losses.base import Loss
    from kgcore.embed.training.loop import (
        bytes_of_tables,
        check_memory,
        train,  # imported here because it loads torch, which is slow
    )

    graph = run.load(GRAPH)
    key = training_key(config, graph)
    run.tag(RunTags(training=key))
    begun = handed_over(run.store, key)
    for twin in run.store.find(RunTags(stage="train", training=key), newest=10):
        if run.context.may_reuse(twin) and run.store.complete(twin):
            begun.unlink(missing_ok=True)
            adopt(run, twin.run_id)
            return
    if graph.train.confidences is not None and LOSSES.get(config.loss).of_confidences is Loss.of_confidences:
        log.warning(
            "train     the loss %s weighs every triple by its confidence, but it does not teach the score that a low "
            "confidence is low: take the loss confidence, nll or self_adversarial",
            config.loss,
        )
    checkpoint = run.store.home / "checkpoints" / run.key / "train.safetensors"
    if begun.exists():
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        begun.replace(checkpoint)
    device, entities = find_device(run.context.device), len(graph.entities)
    buckets = cores() if run.context.runner == DASK else 1  # at a time, on this machine
    check_memory(entities, config, free_memory(device), buckets)
    # a checkpoint is written beside the one before it; the finished model is copied to the artifacts
    check_room("the training", disk=(2 if config.partitions == 1 else 4) * bytes_of_tables(entities, config))
    watched = system_metrics(run.store, run.run_id) if wants_system_metrics() else nullcontext()
    with gpu_slot(device), watched, progress_bar(f"train {config.model}", config.epochs) as bar:
        write = partial(run.store.log_series, run.run_id, "loss", dataset=run.dataset)
        losses = SeriesLog(write, LOSS_SECONDS)
        on_epoch = _on_epoch(losses, bar, len(graph.train))
        if config.partitions > 1:
            from kgcore.wings.partitions import train_in_partitions

            with workers(run.context.runner) as each:
                training = train_in_partitions(graph, config, device, checkpoint.parent, each, on_epoch)
        else:
            training = train(graph, config, device, checkpoint, checkpoint_seconds(), on_epoch)
    losses.flush()
    if training.resumed_at:
        log.info("train     resumed from the checkpoint of epoch %d", training.resumed_at)
        run.store.log_series(run.run_id, "loss", training.losses[: training.resumed_at], run.dataset)
    params = {"model": config.model, "loss": config.loss, "k": config.k, "dataset": graph.name}
    name, fingerprint = f"{graph.name}-{config.model}", training.model.fingerprint()
    model_id = run.log_model(EMBEDDINGS, training.model, name, params, fingerprint=fingerprint)
    run.log_metrics({"final_loss": training.losses[-1]}, model_id=model_id)
    shutil.rmtree(checkpoint.parent, ignore_errors=True)


def training_key(config: TrainConfig, graph: KnowledgeGraph) -> str:
    """Return a hash of everything that a model depends on: settings, training triples and code."""
    return digest([config.as_dict(), graph.training_fingerprint(), code_fingerprint(_code(config))])


def handed_over(store: Store, key: str) -> Path:
    """Return the file of a checkpoint from which a training goes on that another stage has begun.

    key  see `training_key`
    """
    return store.home / "checkpoints" / f"{key}.safetensors"


TRAIN = Stage(
    name="train",
    summary="Train the embeddings on the graph of a prepare run.",
    title="train {config.model} {config.loss} on {data}",
    config=TrainConfig,
    body=_body,
    code=_code,
    inputs={"data": PREPARE},
    on_device=True,
)


@as_task("adopt_model")
def adopt_model(model: StageRef, data: StageRef, context: Context = Context()) -> StageRef:
    """Use the model of a train run for the graph of another prepare run, without training it again.

    Return a train run whose input is the prepare run `data`. This is `model` itself if `data` is already its input.

    Raises MismatchError if the training triples of the two graphs differ, and InputError if the train run does not
    exist or is not finished.
    """
    store = open_store()
    trained = store.finished(model.stage, model.run_id)
    before = trained.tags.inputs["prepare"]
    if before == data.run_id:
        return model
    identity = f"adopted {trained.tags.key}"  # this key contains the code that trained the model

    def body(run: StageRun) -> None:
        graph, earlier = (store.load(run_id, GRAPH) for run_id in (data.run_id, before))
        if graph.training_fingerprint() != earlier.training_fingerprint():
            raise MismatchError(
                f"the model of run {model.run_id} was trained on the triples of prepare run {before}, which differ "
                f"from those of prepare run {data.run_id}: the training triples must be the same"
            )
        adopt(run, model.run_id)

    kind = ImportedModel if loss_of(trained) == IMPORTED else TrainConfig
    return run_stage("train", config_of(kind, trained), (data,), (), body, context, identity)


def adopt(run: StageRun, source: str) -> None:
    """Copy the model and the losses of a finished train run to this run.

    source  id of the finished train run
    """
    [model_id] = run.store.known(source).model_ids
    model = run.store.model(model_id)
    tags = {"fingerprint": model.fingerprint}
    own = run.store.log_model(
        run.run_id, 0, model.name, model.params, tags, lambda folder: run.store.copy_model(folder, model_id)
    )
    if losses := run.store.series(source, "loss"):  # an imported model has none
        run.log_metrics({"final_loss": losses[-1]}, model_id=own)
        run.store.log_series(run.run_id, "loss", losses, run.dataset)
    note = f"Not trained: uses the model of run `{source}`, which has the same training triples."
    run.tag(RunTags(adopted=source, note=note))
    log.info("train     adopted the model of run %s", source)


def _on_epoch(losses: SeriesLog, bar: Callable[..., None], triples: int) -> Callable[[int, float], None]:
    """Return what the training loop calls after each epoch, from 1, with its mean loss per positive.

    It logs the loss to MLflow and moves the bar. Without a terminal, it logs a line every PRINT_SECONDS seconds.
    """
    last = printed = time.monotonic()

    def on_epoch(epoch: int, loss: float) -> None:
        nonlocal last, printed
        now = time.monotonic()
        word = f"loss {loss:.4f}, {triples / max(now - last, 1e-9):,.0f} triples/s"
        bar(epoch, word)
        if now - printed >= PRINT_SECONDS and not console.is_terminal:
            log.info("train     epoch %d, %s", epoch, word)
            printed = now
        last = now
        losses.add(epoch, loss)

    return on_epoch


def check_training(config: TrainConfig, device: str) -> None:
    """Raise InputError if a model cannot be trained with these settings, or if the device does not exist.

    The check loads torch, which takes more than a second. It is not needed if a run with these settings has finished.
    """
    if device in ("auto", "cpu") and _was_trained(config):
        return
    from kgcore.embed.training.loop import built

    built(config)
    if config.partitions > 1:
        from kgcore.wings.partitions import check_settings

        check_settings(config)
    find_device(device)


def _was_trained(config: TrainConfig) -> bool:
    """Return whether a finished run has these settings. A store that does not exist yet is not created."""
    if tracking_uri() == own_uri() and not own_database().is_file():
        return False
    return bool(open_store().find(RunTags(stage="train", config=config.as_dict())))
