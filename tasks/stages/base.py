"""What a stage is. table.py lists all stages in the order of the pipeline."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kgcore.config import Config
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import StageRun, run_stage
from tasks.stages.task import as_task

C = TypeVar("C", bound=Config)


@dataclass(frozen=True, eq=False)
class Stage(Generic[C]):
    """A stage of the pipeline. Its flow, its deployment, its entry point in MLproject and its tests are made from this.

    name       a verb: train
    summary    one sentence for people
    title      name of its flow runs; parameters of the flow stand in braces
    config     the dataclass of its settings
    body       what it does: loads, makes one kgcore call, logs
    code       settings -> the kgcore modules whose sources, with all that they import, are part of the stage's key
    inputs     parameter -> upstream stage, in the order of the arguments
    needs      input -> whether it is used, given the settings; inputs that are not named here always are
    on_device  whether it computes on a device that the user may choose
    normalise     settings -> the settings that are recorded, and are part of the key; a key never contains a path
    identity   settings -> what tells outside data apart; part of the key
    """

    name: str
    summary: str
    title: str
    config: type[C]
    body: Callable[[StageRun, C], None]
    code: Callable[[C], Sequence[str]]
    inputs: Mapping[str, "Stage[Any]"] = field(default_factory=dict)
    needs: Mapping[str, Callable[[C], bool]] = field(default_factory=dict)
    on_device: bool = False
    normalise: Callable[[C], C] = lambda config: config
    identity: Callable[[C], str] = lambda config: ""

    def __call__(self, *upstream: StageRef | None, config: C | None = None, context: Context = Context()) -> StageRef:
        """Run the stage, or re-use a finished run of the same key.

        upstream  a reference for each of `inputs`, in their order; None for an input that the settings do not need
        """
        return self._task(upstream, config or self.config(), context)

    def lineage(self) -> list[str]:
        """The names of all stages that this one comes from, and its own, upstream first."""
        names = [name for stage in self.inputs.values() for name in stage.lineage()]
        return list(dict.fromkeys([*names, self.name]))

    def needed(self, config: C) -> list[str]:
        """The inputs that these settings use."""
        return [name for name in self.inputs if name not in self.needs or self.needs[name](config)]

    @functools.cached_property
    def _task(self) -> Callable[[Sequence[StageRef | None], C, Context], StageRef]:
        return as_task(self.name)(self._run)

    def _run(self, upstream: Sequence[StageRef | None], config: C, context: Context) -> StageRef:
        used = self.needed(config)
        refs = [ref for name, ref in zip(self.inputs, upstream, strict=True) if name in used and ref is not None]
        wanted = [self.inputs[name].name for name in used]
        if [ref.stage for ref in refs] != wanted:
            raise ValueError(f"{self.name} takes {wanted}, not {[str(ref) for ref in refs]}")
        body = functools.partial(self._body, config=config)
        recorded = self.normalise(config)
        return run_stage(self.name, recorded, refs, self.code(config), body, context, self.identity(config))

    def _body(self, run: StageRun, config: C) -> None:
        self.body(run, config)
