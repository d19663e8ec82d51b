"""Names of flow runs whose settings a preset may decide."""

from collections.abc import Callable

from kgcore.config import PipelineGiven
from kgcore.config.presets import resolve
from kgcore.errors import InputError
from tasks.workspace.flow_run import current_flow_run


def resolved_name(*words: str) -> Callable[[], str]:
    """A flow-run name: the words, then the data set, model and loss that the preset and the given settings decide.

    Prefect calls it in the context of the flow run. Settings that cannot work leave the words alone, or `pipeline`
    where there are none: the flow itself raises the error.
    """

    def name() -> str:
        run = current_flow_run()
        assert run is not None
        parameters = run.parameters
        try:
            given = PipelineGiven(prepare=parameters["prepare"], train=parameters["train"])
            configs = resolve(parameters["preset"], given).configs
        except InputError:
            return " ".join(words) or "pipeline"
        return " ".join([*words, configs.prepare.dataset, configs.train.model, configs.train.loss])

    return name
