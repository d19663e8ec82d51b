"""train: the embedding model, resumable."""

import shutil
import time
from collections.abc import Callable

import torch

from kgcore import storage
from kgcore.config import TrainConfig
from kgcore.corruptions import STRATEGIES
from kgcore.errors import InputError
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.registry import build
from kgcore.training.loop import train
from tasks.gpu import gpu_slot
from tasks.progress import console, progress_bar
from tasks.settings import checkpoint_seconds
from tasks.stage import Context, StageRef, StageRun, log, run_stage, stage_task


@stage_task
def train_model(data: StageRef, config: TrainConfig, context: Context = Context()) -> StageRef:
    """Train the embeddings on the graph. LoggedModel: embeddings.safetensors, model.json. Metric: the loss by epoch."""
    code = (
        "kgcore.training.loop",
        MODELS.module(config.model),
        LOSSES.module(config.loss),
        *(STRATEGIES.module(name) for name in config.negatives),
    )

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
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
            run.store.log_series(run.run_id, "loss", training.losses[: training.resumed_at])
        trained = training.model
        params = {"model": config.model, "loss": config.loss, "k": config.k, "dataset": graph.name}
        run.log_model(
            0,
            f"{graph.name}-{config.model}",
            lambda folder: storage.write_model(folder, trained),
            params,
            {"fingerprint": trained.fingerprint()},
        )
        shutil.rmtree(checkpoint.parent, ignore_errors=True)

    return run_stage("train", config, (data,), code, body, context)


class _Watch:
    """Shows each epoch on the terminal and logs the losses to MLflow while training goes on, every few seconds."""

    SECONDS, SAY_SECONDS = 2.0, 30.0

    def __init__(self, run: StageRun, bar: Callable[..., None], triples: int) -> None:
        self._run, self._bar, self._triples = run, bar, triples
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
        self._run.store.log_series(self._run.run_id, "loss", self._losses, first=self._next - len(self._losses))
        self._losses, self._flushed = [], time.monotonic()


def check_training(config: TrainConfig, device: str) -> None:
    """Raise InputError for options or a device that there are not: before anything runs."""
    build(MODELS.get(config.model), config.model_options, config.k)
    build(LOSSES.get(config.loss), config.loss_options)
    find_device(device)


def find_device(name: str) -> torch.device:
    """The torch device of that name; auto takes a GPU where there is one. Raises InputError where it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"there is no device {name!r}: auto, cpu, cuda or cuda:N is needed") from None
    there = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= there:
        raise InputError(f"the device {name!r} is not available here: use cpu or auto")
    return device
