"""train: the embedding model, resumable."""

import shutil

import torch

from kgcore import storage
from kgcore.config import TrainConfig
from kgcore.corruptions import STRATEGIES
from kgcore.errors import InputError
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.training.loop import train
from tasks.progress import progress_bar
from tasks.settings import checkpoint_seconds
from tasks.stage import Context, StageRef, StageRun, log, run_stage, stage_task


@stage_task
def train_model(data: StageRef, config: TrainConfig, context: Context = Context()) -> StageRef:
    """Train the embeddings on the graph. LoggedModel: embeddings.safetensors, model.json. Metric: the loss by epoch."""
    code = (
        "kgcore.training.loop",
        MODELS.module(config.model),
        LOSSES.module(config.loss),
        STRATEGIES.module("uniform"),
    )

    def body(run: StageRun) -> None:
        graph = run.load("prepare", "graph", storage.read_graph)
        checkpoint = run.store.home / "checkpoints" / run.key / "train.safetensors"
        with progress_bar(f"train {config.model}", config.epochs) as bar:

            def on_epoch(epoch: int, loss: float) -> None:
                bar(epoch, f"loss {loss:.4f}")

            training = train(graph, config, find_device(context.device), checkpoint, checkpoint_seconds(), on_epoch)
        if training.resumed_at:
            log.info("train     resumed from the checkpoint of epoch %d", training.resumed_at)
        run.log_series("loss", training.losses)
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


def find_device(name: str) -> torch.device:
    """The torch device of that name; auto takes a GPU where there is one. Raises InputError where it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"there is no device {name!r}: auto, cpu, cuda or cuda:N is needed") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise InputError(f"the device {name!r} is not available here: use cpu or auto")
    return device
