"""The definition of a stage. table.py lists all stages in the order of the pipeline."""

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
    """A stage of the pipeline. Its flow, deployment, entry point in MLproject and tests are generated from it.

    name       a verb, for example `train`
    summary    one sentence for the help text
    title      template for the names of its flow runs, with the flow's parameters in braces
    config     the dataclass of its settings
    body       function that loads the inputs, makes one kgcore call and logs the result
    code       settings -> kgcore modules; the key contains their sources and those of all modules that they import
    inputs     parameter -> upstream stage, in the order of the arguments
    needs      input -> function of the settings that returns whether the input is used; other inputs are always used
    on_device  whether the user may choose the device that it computes on
    normalise  settings -> settings to record, which are part of the key; a key never contains a path
    identity   settings -> text that identifies data outside the store; part of the key
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
        """Run the stage, or re-use a finished run of the same key. Return the run.

        upstream  a reference for each of `inputs`, in their order; None for an input that the settings do not use
        config    the settings; None: the defaults

        Raises ValueError if a reference is to a stage that `inputs` does not expect, InputError if a run is not
        finished, and MismatchError if runs do not belong together.
        """
        return self._task(upstream, config or self.config(), context)

    def lineage(self) -> list[str]:
        """Return the names of all upstream stages and of this one, upstream first."""
        names = [name for stage in self.inputs.values() for name in stage.lineage()]
        return list(dict.fromkeys([*names, self.name]))

    def needed(self, config: C) -> list[str]:
        """Return the names of the inputs that these settings use."""
        return [name for name in self.inputs if name not in self.needs or self.needs[name](config)]

    @functools.cached_property
    def _task(self) -> Callable[[Sequence[StageRef | None], C, Context], StageRef]:
        return as_task(self.name)(self._run)

    def _run(self, upstream: Sequence[StageRef | None], config: C, context: Context) -> StageRef:
        used = self.needed(config)
        refs = [ref for name, ref in zip(self.inputs, upstream, strict=True) if name in used and ref is not None]
        expected = [self.inputs[name].name for name in used]
        if [ref.stage for ref in refs] != expected:
            found = ", ".join(map(str, refs)) or "none"
            raise ValueError(f"the upstream runs of {self.name} are {found}: they must be of {', '.join(expected)}")
        body = functools.partial(self._body, config=config)
        recorded = self.normalise(config)
        return run_stage(self.name, recorded, refs, self.code(config), body, context, self.identity(config))

    def _body(self, run: StageRun, config: C) -> None:
        self.body(run, config)
