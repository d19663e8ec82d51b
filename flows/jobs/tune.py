"""The Prefect flow that searches for training settings."""

from dataclasses import replace

from flows.flow import flow, resolved_name
from flows.job import job, publish
from flows.parameters import Device, PresetWithoutRace
from kgcore.config import (
    CalibrateConfig,
    CorruptConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    TuneConfig,
    presets,
)
from kgcore.measure.report.result import Result
from tasks.jobs.tune import check_search, search_settings, tuning_run
from tasks.stages.choose import raced_settings
from tasks.stages.prepare import PREPARE
from tasks.stages.running import Context


@job()
@flow(name="tune", flow_run_name=resolved_name("tune"))
def tune(
    prepare: PrepareConfig = PrepareConfig(),
    train: TrainConfig = TrainConfig(),
    corrupt: CorruptConfig = CorruptConfig(),
    config: TuneConfig = TuneConfig(),
    preset: PresetWithoutRace = None,
    base_rate: float | None = None,
    force: bool = False,
    device: Device = "auto",
) -> Result:
    """Search for the best training settings on the validation split.

    To resume a search, give the same options again. The metric of a trial is computed from cross-fitted probabilities:
    an isotonic calibrator is fitted on one half of the validation triples and applied to the other half, and the other
    way round. The test split is not used.

    Args:
        prepare: the graph
        train: the initial settings; the search keeps those that it does not vary
        corrupt: the corruptions that serve as validation negatives if none are labelled
        config: what to search, and for how long
        preset: fills in the settings of train and corrupt that you leave out: default, best, paper or none. If empty:
            what the newest race on the graph has chosen; without a race, default
        base_rate: stated base rate, used if no negatives are labelled; if empty, 0.5 is assumed
        force: start the search from scratch
        device: auto, cpu, cuda or cuda:N
    """
    usual = CalibrateConfig(base_rate=base_rate, calibrators=CalibrateConfig().calibrators)
    given = PipelineConfigs(prepare, train, corrupt, usual)
    resolved = presets.resolve(preset, given, races=False)
    configs = resolved.configs
    check_search(configs, device)
    data = PREPARE(config=configs.prepare, context=Context(device=device))
    if presets.resolve(preset, given).preset == presets.AUTO:
        configs = replace(configs, train=raced_settings(data, train, configs.train))
    with tuning_run(configs, config, resolved.parameters) as run_id:
        best = search_settings(data, configs, config, Context(parent=run_id, device=device, force=force))
    return publish(best)
