"""train: the embedding model, resumable; or a finished one, adopted by a graph with the same training triples."""

import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from kgcore import storage
from kgcore.config import TrainConfig
from kgcore.errors import MismatchError
from kgcore.registries import LOSSES, MODELS, STRATEGIES
from tasks.stages.base import (
    Context,
    StageRef,
    StageRun,
    checked,
    config_of,
    digest,
    inputs,
    log,
    run_stage,
    stage_task,
)
from tasks.tracking.fingerprint import code_fingerprint
from tasks.tracking.store import open_store
from tasks.workspace.progress import console, progress_bar
from tasks.workspace.resources import find_device, gpu_slot
from tasks.workspace.settings import checkpoint_seconds


@stage_task
def train_model(data: StageRef, config: TrainConfig, context: Context = Context()) -> StageRef:
    """Train the embeddings on the graph. LoggedModel: embeddings.safetensors, model.json. Metric: the loss by epoch.

    Only the training triples matter here: where a finished run trained on the same ones, as it has when the validation
    or test files alone have changed, its model is adopted.
    """
    code = (
        "kgcore.training.loop",
        MODELS.module(config.model),
        LOSSES.module(config.loss),
        *(STRATEGIES.module(name) for name in config.training_strategy),
    )

    def body(run: StageRun) -> None:
        from kgcore.training.loop import train  # loads torch, which no other stage waits for where none is run

        graph = run.load("prepare", "graph", storage.read_graph)
        training_key = digest([asdict(config), graph.training_fingerprint(), code_fingerprint(code)])
        run.store.log_tags(run.run_id, {"kgcal.training": training_key})
        for twin in run.store.search(newest=10, stage="train", training=training_key):
            if context.may_reuse(twin) and run.store.complete(twin):
                adopt(run, twin.info.run_id)
                return
        checkpoint = run.store.home / "checkpoints" / run.key / "train.safetensors"
        with (
            gpu_slot(find_device(context.device)) as device,
            progress_bar(f"train {config.model}", config.epochs) as bar,
        ):
            watch = _Watch(run, bar, len(graph.train))
            training = train(graph, config, device, checkpoint, checkpoint_seconds(), watch.epoch)
        watch.flush()
        if training.resumed_at:
            log.info("train     resumed from the checkpoint of epoch %d", training.resumed_at)
            run.store.log_series(run.run_id, "loss", training.losses[: training.resumed_at], run.dataset)
        trained = training.model
        params = {"model": config.model, "loss": config.loss, "k": config.k, "dataset": graph.name}
        model_id = run.log_model(
            0,
            f"{graph.name}-{config.model}",
            lambda folder: storage.write_model(folder, trained),
            params,
            {"fingerprint": trained.fingerprint()},
        )
        run.log_metrics({"final_loss": training.losses[-1]}, model_id=model_id)
        shutil.rmtree(checkpoint.parent, ignore_errors=True)

    return run_stage("train", config, (data,), code, body, context)


@stage_task
def adopt_model(model: StageRef, data: StageRef, context: Context = Context()) -> StageRef:
    """The model of a train run as one of another prepare run, without training: the run itself where it came from that
    one. Raises MismatchError when their training triples are not the same."""
    store = open_store()
    trained = checked(store, model)
    before = inputs(trained)["prepare"]
    if before == data.run_id:
        return model
    identity = f"adopted {trained.data.tags['kgcal.key']}"  # whatever code trained it

    def body(run: StageRun) -> None:
        graph, earlier = (store.load(run_id, "graph", storage.read_graph) for run_id in (data.run_id, before))
        if graph.training_fingerprint() != earlier.training_fingerprint():
            raise MismatchError(
                f"the model of run {model.run_id} was trained on other triples than those of prepare run "
                f"{data.run_id}: they do not belong together"
            )
        adopt(run, model.run_id)

    return run_stage("train", config_of(TrainConfig, model), (data,), (), body, context, identity)


def adopt(run: StageRun, source: str) -> None:
    """Log the model of a finished train run as this run's own, with its losses."""
    [model_id] = run.store.model_ids(source)
    model = run.store.client.get_logged_model(model_id)

    def write(folder: Path) -> None:
        run.store.load_model(model_id, lambda files: shutil.copytree(files, folder, dirs_exist_ok=True))

    own = run.log_model(0, model.name, write, model.params, {"fingerprint": model.tags["fingerprint"]})
    losses = sorted(run.store.client.get_metric_history(source, "loss"), key=lambda point: point.step)
    run.log_metrics({"final_loss": losses[-1].value}, model_id=own)
    run.store.log_series(run.run_id, "loss", [point.value for point in losses], run.dataset)
    note = f"Not trained: the model of run `{source}`, whose training triples are the same."
    run.store.log_tags(run.run_id, {"kgcal.adopted": source, "mlflow.note.content": note})
    log.info("train     adopted the model of run %s", source)


class _Watch:
    """Shows each epoch on the terminal and logs the losses to MLflow while training goes on, every few seconds."""

    SECONDS, SAY_SECONDS = 2.0, 30.0

    def __init__(self, run: StageRun, bar: Callable[..., None], triples: int) -> None:
        self._run, self._bar, self._triples, self._dataset = run, bar, triples, run.dataset
        self._losses: list[float] = []
        self._next = 0
        self._last = self._flushed = self._said = time.monotonic()

    def epoch(self, epoch: int, loss: float) -> None:
        """After an epoch, from 1, with its mean loss a positive."""
        now = time.monotonic()
        word = f"loss {loss:.4f}, {self._triples / max(now - self._last, 1e-9):,.0f} triples/s"
        self._bar(epoch, word)
        if now - self._said >= self.SAY_SECONDS and not console.is_terminal:  # where there is no bar to see
            log.info("train     epoch %d, %s", epoch, word)
            self._said = now
        self._losses.append(loss)
        self._next, self._last = epoch + 1, now
        if now - self._flushed >= self.SECONDS:
            self.flush()

    def flush(self) -> None:
        """Log what is not logged yet."""
        first = self._next - len(self._losses)
        self._run.store.log_series(self._run.run_id, "loss", self._losses, self._dataset, first)
        self._losses, self._flushed = [], time.monotonic()


def check_training(config: TrainConfig, device: str) -> None:
    """Raise InputError for what cannot be trained, or a device that there is not: before anything runs."""
    from kgcore.training.setup import built

    built(config)
    find_device(device)
