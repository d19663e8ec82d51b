"""Names of flow runs that contain settings which a preset can choose."""

from collections.abc import Callable

from kgcore.config import PipelineConfigs
from kgcore.config.presets import resolve
from kgcore.errors import InputError
from tasks.jobs.pipeline import title_of
from tasks.workspace.flow_run import current_flow_run


def resolved_name(*words: str) -> Callable[[], str]:
    """Return a function that names a flow run: the words, then the data set, the model and the loss.

    The given settings and the preset determine the data set, the model and the loss. If a race chooses the model, its
    name is `auto`; only the flow without words, the pipeline, has races. Prefect calls the function in the context of
    the flow run. If the settings are invalid, the name is the words alone, or `pipeline` if there are no
    words; the flow itself then raises the error.
    """

    def name() -> str:
        run = current_flow_run()
        assert run is not None
        parameters = run.parameters
        try:
            given = PipelineConfigs(prepare=parameters["prepare"], train=parameters["train"])
            configs = resolve(parameters["preset"], given, races=not words).configs
        except InputError:
            return " ".join(words) or "pipeline"
        return " ".join([*words, configs.prepare.dataset, title_of(configs)])

    return name
