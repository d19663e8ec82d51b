"""The search for training settings."""

from dataclasses import replace

from flows.deployment.flow import flow
from flows.deployment.parameters import Device, PresetOrNone
from flows.deployment.publish import publish_tuning
from kgcore.config import CalibrateConfig, CorruptConfig, PipelineConfigs, PrepareConfig, TrainConfig, TuneConfig
from kgcore.config.presets import tuned
from tasks.jobs.tune import Tuned, search_settings, tuning_run
from tasks.stages.prepare import PREPARE
from tasks.stages.reference import Context


@flow(name="tune", flow_run_name="tune {prepare.dataset} {train.model} {train.loss}")
def tune(
    prepare: PrepareConfig = PrepareConfig(),
    train: TrainConfig = TrainConfig(),
    corrupt: CorruptConfig = CorruptConfig(),
    config: TuneConfig = TuneConfig(),
    preset: PresetOrNone = "default",
    base_rate: float = CalibrateConfig().base_rate,
    force: bool = False,
    device: Device = "auto",
) -> Tuned:
    """Search for the best training settings on validation; goes on where a search with the same options has ended.

    The figure is that of the probabilities that an isotonic calibrator of one half of the validation triples gives the
    other half, both ways. The test split has no part in it.

    Args:
        prepare: which graph
        train: the settings that the search starts from, and keeps where it does not search
        corrupt: the corruptions that stand for validation negatives where none are labelled
        config: the search
        preset: settings of train and corrupt for the data set, where they are left as they are: default, best, paper or
            none
        base_rate: share of positives by weight, where no negatives are labelled
        force: begin the search anew
        device: auto, cpu, cuda or cuda:N
    """
    found = tuned(preset, PipelineConfigs(prepare, train, corrupt))
    configs = replace(found, calibrate=CalibrateConfig(base_rate=base_rate))
    with tuning_run(configs, config, device) as run_id:
        context = Context(parent=run_id, device=device)
        data = PREPARE(config=prepare, context=context)
        best = search_settings(data, configs, config, replace(context, force=force))
    publish_tuning(best)
    return best
