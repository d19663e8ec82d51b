"""The table of stages, and the properties of a stage."""

import pytest

from kgcore.config import CorruptConfig, PrepareConfig
from kgcore.errors import InputError, MismatchError
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.classify import CLASSIFY
from tasks.stages.corrupt import CORRUPT
from tasks.stages.evaluate import EVALUATE
from tasks.stages.evidence import EVIDENCE_STAGE
from tasks.stages.match import MATCH
from tasks.stages.prepare import PREPARE
from tasks.stages.rank import RANK
from tasks.stages.report import REPORT
from tasks.stages.running import Stage, StageRef
from tasks.stages.score import SCORE
from tasks.stages.table import STAGES, in_order
from tasks.stages.train import TRAIN
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store

NAMES = [
    *("prepare", "choose", "train", "match", "corrupt", "score", "evidence"),
    *("calibrate", "classify", "rank", "evaluate", "report"),
]
LINE = [name for name in NAMES if name != "choose"]
every_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)


def test_the_table_has_each_stage_after_its_inputs() -> None:
    assert [stage.name for stage in STAGES] == NAMES
    for place, stage in enumerate(STAGES):
        assert all(source in STAGES[:place] for source in stage.inputs.values()), stage.name


@every_stage
def test_a_stage_describes_itself(stage: Stage) -> None:
    assert stage.config.stage == stage.name
    assert stage.summary.endswith(".")
    assert set(stage.needs) | set(stage.optional) <= set(stage.inputs)
    assert stage.needed(stage.config()) == [name for name in stage.inputs if (stage.name, name) != ("corrupt", "model")]
    assert stage.code(stage.config()), "no code is part of the key"


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        (PREPARE, ["prepare"]),
        (TRAIN, ["prepare", "train"]),
        (CORRUPT, ["prepare", "train", "corrupt"]),
        (SCORE, ["prepare", "train", "corrupt", "score"]),
        (MATCH, LINE[:3]),
        (EVIDENCE_STAGE, LINE[:6]),
        (CALIBRATE, LINE[:7]),
        (CLASSIFY, LINE[:8]),
        (RANK, ["prepare", "train", "rank"]),
        (EVALUATE, LINE[:10]),
        (REPORT, NAMES),
    ],
    ids=lambda value: value.name if isinstance(value, Stage) else "",
)
def test_the_line_of_a_stage_has_all_that_it_comes_from(stage: Stage, line: list[str]) -> None:
    assert list(in_order(dict.fromkeys(stage.lineage()))) == line
    assert stage.lineage()[-1] == stage.name


@pytest.mark.parametrize(
    ("strategy", "needed"),
    [
        ({"uniform": 1.0}, ["data"]),
        ({"typed": 0.9, "uniform": 0.1}, ["data"]),
        ({"near_miss": 1.0}, ["data", "model"]),
        ({"nearest": 0.1, "uniform": 0.9}, ["data", "model"]),
    ],
    ids=lambda value: "+".join(value),
)
def test_corrupt_needs_a_model_for_strategies_that_draw_by_one(strategy: dict[str, float], needed: list[str]) -> None:
    assert CORRUPT.needed(CorruptConfig(calibration_strategy=strategy)) == needed


def test_the_stages_of_a_mapping_come_in_the_order_of_the_pipeline() -> None:
    shuffled = {"calibrate.10": 10, "report": 9, "calibrate.2": 2, "prepare": 0, "calibrate.1": 1, "corrupt": 3}
    assert list(in_order(shuffled)) == ["prepare", "corrupt", "calibrate.1", "calibrate.2", "calibrate.10", "report"]
    assert in_order(shuffled) == shuffled


@pytest.fixture
def prepared(home: object) -> StageRef:
    return PREPARE(config=PrepareConfig(size=300))


def no_run_but(ref: StageRef) -> bool:
    """Return whether the store contains only that run."""
    return [run.run_id for run in open_store().find(RunTags(), newest=10, status=None)] == [ref.run_id]


def test_a_stage_refuses_references_of_other_stages(prepared: StageRef) -> None:
    score = StageRef("score", prepared.run_id)
    for stage, upstream, message in (
        (TRAIN, (score,), r"the upstream runs of train are score:.*: they must be runs of prepare"),
        (
            SCORE,
            (prepared, prepared),
            r"the upstream runs of score are prepare:.*: they must be runs of train, corrupt",
        ),
        (SCORE, (None, None), "the upstream runs of score are none: they must be runs of train, corrupt"),
        (CORRUPT, (None, prepared), "the upstream runs of corrupt are none: they must be runs of prepare"),
        (RANK, (), "the upstream runs of rank are none: they must be runs of train"),
        (RANK, (prepared, prepared), "argument 2 is longer"),
    ):
        with pytest.raises(ValueError, match=message):
            stage(*upstream)
    assert no_run_but(prepared)


def test_a_stage_refuses_a_reference_whose_run_is_of_another_stage(prepared: StageRef) -> None:
    with pytest.raises(InputError, match="is of stage prepare: a run of stage train is needed"):
        RANK(StageRef("train", prepared.run_id))
    assert no_run_but(prepared)


def test_a_stage_refuses_runs_that_do_not_belong_together(prepared: StageRef) -> None:
    other = PREPARE(config=PrepareConfig(size=310))
    store = open_store()
    refs = []
    for stage, data in (("train", prepared), ("corrupt", other)):
        with store.open_run(stage, RunTags(stage=stage, inputs={"prepare": data.run_id})) as run_id:
            refs.append(StageRef(stage, run_id))
    both = f"prepare run {other.run_id}.*prepare run {prepared.run_id}: all inputs must come from the same"
    with pytest.raises(MismatchError, match=both):
        SCORE(*refs)
    assert store.find(RunTags(stage="score"), status=None) == []
