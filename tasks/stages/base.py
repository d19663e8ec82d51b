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

    The key is a hash of everything that a result depends on. A finished run with the same key is re-used.

    name       a verb, for example `train`
    summary    one sentence for the help text
    title      template for the names of its flow runs; parameters of the flow are in braces
    config     the dataclass of its settings
    body       function that loads the inputs, calls kgcore and logs the result
    code       function of the settings that returns kgcore modules. The key contains the source code of these modules
               and of all modules that they import
    inputs     parameter -> upstream stage, in the order of the arguments
    optional   inputs that may be None: the stage then does without them
    several    parameter -> stage: any number of its runs are further inputs, at most one parameter. They may come from
               other upstream runs
    needs      input -> function of the settings that returns whether the stage uses this input. An input without such a
               function is always used
    on_device  whether the user may choose the device (CPU or GPU) on which the stage computes
    normalise  function that returns the settings to record. They are part of the key, so they contain no path
    identity   function of the settings that returns a text. It identifies the data that the stage reads from outside
               the MLflow store, and is part of the key
    settle     function that completes the settings from the upstream runs
    """

    name: str
    summary: str
    title: str
    config: type[C]
    body: Callable[[StageRun, C], None]
    code: Callable[[C], Sequence[str]]
    inputs: Mapping[str, "Stage[Any]"] = field(default_factory=dict)
    needs: Mapping[str, Callable[[C], bool]] = field(default_factory=dict)
    optional: Sequence[str] = ()
    several: Mapping[str, "Stage[Any]"] = field(default_factory=dict)
    on_device: bool = False
    normalise: Callable[[C], C] = lambda config: config
    identity: Callable[[C], str] = lambda config: ""
    settle: Callable[[C, Sequence[StageRef]], C] = lambda config, upstream: config

    def __call__(
        self,
        *upstream: StageRef | None,
        config: C | None = None,
        context: Context = Context(),
        several: Sequence[StageRef] = (),
    ) -> StageRef:
        """Run the stage, or find a finished run with the same key. Return a reference to the run.

        upstream  a reference for each of `inputs`, in their order; None for an input that the settings do not use, or
                  that is optional. The last ones may be left out if they are None
        config    the settings; None: the defaults
        several   references for the parameter `several`, in an order that has an effect

        Raises ValueError if the references are not to the stages that these settings use as inputs, InputError if an
        upstream run does not exist or is not finished, and MismatchError if two upstream runs come from different runs
        of one stage.
        """
        return self._task(upstream, config or self.config(), context, several)

    def lineage(self) -> list[str]:
        """Return the names of all upstream stages, then the name of this stage."""
        names = [name for stage in self.inputs.values() for name in stage.lineage()]
        return list(dict.fromkeys([*names, self.name]))

    def needed(self, config: C) -> list[str]:
        """Return the names of the inputs that these settings use."""
        return [name for name in self.inputs if name not in self.needs or self.needs[name](config)]

    @functools.cached_property
    def _task(self) -> Callable[[Sequence[StageRef | None], C, Context, Sequence[StageRef]], StageRef]:
        return as_task(self.name)(self._run)

    def _run(
        self, upstream: Sequence[StageRef | None], config: C, context: Context, several: Sequence[StageRef]
    ) -> StageRef:
        left_out = [None] * (len(self.inputs) - len(upstream))
        given = dict(zip(self.inputs, (*upstream, *left_out), strict=True))
        used = [name for name in self.needed(config) if name not in self.optional or given[name] is not None]
        refs = [ref for name, ref in given.items() if name in used and ref is not None]
        expected = [self.inputs[name].name for name in used]
        if [ref.stage for ref in refs] != expected:
            found = ", ".join(map(str, refs)) or "none"
            raise ValueError(
                f"the upstream runs of {self.name} are {found}: they must be runs of {', '.join(expected)}"
            )
        config = self.settle(config, refs)
        body = functools.partial(self._body, config=config)
        recorded = self.normalise(config)
        return run_stage(self.name, recorded, refs, self.code(config), body, context, self.identity(config), several)

    def _body(self, run: StageRun, config: C) -> None:
        self.body(run, config)
