"""`mlflow run`: every entry point is a command with its options, and uses the run that MLflow opens."""

import inspect
import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from typer.testing import CliRunner

from flows.cli.main import whole_app
from flows.cli.mlproject import JOBS, project_text, translated
from flows.job import Argument
from flows.stages import STAGE_FLOWS
from kgcore import config
from kgcore.config.base import BY_PRESET
from kgcore.errors import InputError
from tests.pipeline.command import CHECKOUT

app = whole_app()

PROJECT: dict[str, Any] = yaml.safe_load((CHECKOUT / "MLproject").read_text())
POINTS: dict[str, dict[str, Any]] = {name: point["parameters"] for name, point in PROJECT["entry_points"].items()}
CONFIGS = [kind for kind in vars(config).values() if isinstance(kind, type) and issubclass(kind, config.Config)]
DEFAULTS = {name: item.default for kind in CONFIGS for name, item in kind.model_fields.items()}
DEFAULTS["calibrators"] = config.CalibrateConfig().calibrators  # `calibrate-scores` has a setting of the same name
DEFAULTS["split"] = config.PrepareConfig().split  # so does it here
DEFAULTS["candidates"] = ""  # of match; `discover` has a setting of the same name
OWN = {  # settings of jobs whose names other jobs have too
    "predict": config.PredictConfig,
    "base-rate": config.BaseRateConfig,
    "discover": config.DiscoverConfig,
    "explain": config.ExplainConfig,
    "audit": config.AuditConfig,
    "watch": config.WatchConfig,
    "calibrate-scores": config.ScoresConfig,
    "ensemble": config.EnsembleConfig,
    "tune": config.TuneConfig,
    "choose": config.ChooseConfig,
    "main": config.ChooseConfig,
}
OTHERS = [name for name, job in JOBS.items() if name != "main" and job.flow not in STAGE_FLOWS]
UPSTREAM = {"data", "corruptions", "scores", "predictions", "ranks", "evaluation"}
# parameters that have the name of a setting but are not settings
UPSTREAM_OF = {name: {"model"} for name in ("match", "corrupt", "score", "evidence", "rank", "recalibrate")}
UPSTREAM_OF["classify"] = {"calibrators"}
ASKED = {"dataset", "model", "calibrator", "base_rate", "device"}  # parameters of the entry points that ask a model
WITHOUT_DEFAULT = {
    "calibrate": {"evidence"},  # a run id
    "predict": ASKED | {"candidates", "output", "subjects", "predicate", "objects"},
    "base-rate": ASKED - {"base_rate"} | {"candidates", "output"},
    "discover": ASKED | {"subject", "predicate", "object", "output"},
    "explain": ASKED | {"triple", "output"},
    "audit": {"output", "error_rate"},
    "promote": {"dataset", "base_rate"},
    "watch": {"dataset"},
    "recalibrate": {"base_rate"},
    "ensemble": {"runs"},
    "reproduce": {"tables", "datasets", "csv"},
    "calibrate-scores": {"file", "apply", "output", "model", "calibrator"},
}
PLAIN = {
    "runner": "threads",
    "force": False,
    "device": "",
    "ensemble": 0,
    "labels": "",
    "instead": False,
    "presets": "default",
    "seeds": "0",
    "recorded": False,
    **dict.fromkeys(("refit", "promote", "watch", "recalibrate"), False),
}
DECLARED = {  # entry -> parameter of the flow that is no setting -> its default
    entry: {
        name: parameter.default
        for name, parameter in inspect.signature(job.fn).parameters.items()
        if not (parameter.default is parameter.empty or isinstance(parameter.default, config.Config))
    }
    for entry, job in JOBS.items()
}


def text(value: Any) -> Any:
    """Return a default as MLflow passes it on: lists and tables with commas, flags as true or false, "" for none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ",".join(f"{name}={number:g}" for name, number in value.items())
    return ",".join(value) if isinstance(value, tuple) else value


def names(*kinds: type[config.Config]) -> set[str]:
    return {name for kind in kinds for name in kind.model_fields}


def test_the_file_is_what_the_options_make_it() -> None:
    assert (CHECKOUT / "MLproject").read_text() == project_text(), "run `make generated`"


def test_every_declared_parameter_has_its_type_and_default() -> None:
    assert list(POINTS) == ["main", *(function.name for function in STAGE_FLOWS), *OTHERS]
    for entry, parameters in POINTS.items():
        if entry.startswith("import-"):
            continue  # tests/pipeline/test_mlproject_imports.py
        for name, declared in parameters.items():
            expected = text(PLAIN.get(name, DECLARED[entry].get(name, DEFAULTS.get(name))))
            expected = text(getattr(OWN[entry](), name, expected)) if entry in OWN else expected
            argument = isinstance(JOBS[entry].shown.get(name), Argument)
            expected = "" if argument or name in WITHOUT_DEFAULT.get(entry, set()) else expected
            expected = "latest" if name in UPSTREAM | UPSTREAM_OF.get(entry, set()) else expected
            assert declared["default"] == expected, (entry, name)
            assert declared["type"] == {str: "string", int: "int", float: "float"}[type(expected)], (entry, name)


def test_every_setting_is_declared_unless_a_preset_may_decide_it() -> None:
    of_predict = names(config.PredictConfig, config.PairsConfig)
    asking = of_predict, names(config.DiscoverConfig), names(config.ExplainConfig)
    upkeep = names(config.GateConfig, config.WatchConfig)
    others = names(config.EnsembleConfig, config.TuneConfig, config.AuditConfig, config.BaseRateConfig)
    others |= names(config.ImportConfig) - names(config.TrainConfig)
    jobs = upkeep.union(*asking, others, names(config.ScoresConfig) - names(config.CalibrateConfig))
    of_stages = set(DEFAULTS) - jobs | names(config.ChooseConfig) | {"candidates", "split", "completeness"}
    assert set(POINTS["main"]) == of_stages - BY_PRESET | {"other_models", "ensemble", "force", "device", "runner"}
    stages = set().union(*(POINTS[function.name] for function in STAGE_FLOWS))
    assert stages == of_stages | {"force", "device", "runner", "choice", "other_models"} | UPSTREAM
    later = names(config.ClassifyConfig, config.EvaluateConfig, config.MatchConfig, config.ChooseConfig) | {
        "weighted",
        "completeness",
    }
    later |= {name for name in names(config.CalibrateConfig) if name.startswith(("base_rate_", "combine_"))}
    later |= names(config.EvidenceConfig, config.RankConfig)
    later |= {"other_models", "ensemble", "runner"}
    assert set(POINTS["tune"]) == set(POINTS["main"]) - later | names(config.TuneConfig)
    used = names(config.PrepareConfig, config.TrainConfig) - BY_PRESET | {"force", "device"}
    assert set(POINTS["audit"]) == used | names(config.AuditConfig) | {"labels", *WITHOUT_DEFAULT["audit"]}
    for entry, own in zip(("predict", "discover", "explain"), asking, strict=True):
        plain = WITHOUT_DEFAULT[entry] | (set() if entry == "explain" else {"runner"})
        assert set(POINTS[entry]) == own | plain
    assert set(POINTS["promote"]) | set(POINTS["watch"]) == upkeep | {"dataset", "base_rate", "labels"}
    assert set(POINTS["base-rate"]) == names(config.BaseRateConfig) | WITHOUT_DEFAULT["base-rate"]
    scores = names(config.ScoresConfig, config.EvaluateConfig)
    flags = {"promote", "watch", "recalibrate"}
    assert set(POINTS["calibrate-scores"]) == scores | flags | WITHOUT_DEFAULT["calibrate-scores"]
    assert set(POINTS["ensemble"]) == names(config.EnsembleConfig) | {"runs", "force"}


def test_comments_list_what_a_preset_may_decide() -> None:
    whole = (CHECKOUT / "MLproject").read_text().split("\n  prepare:")[0]
    comments = [line.partition("#   ")[2] for line in whole.splitlines() if "#   " in line]
    listed = {name: value["default"] for line in comments for name, value in yaml.safe_load(line).items()}
    assert listed == {name: text(DEFAULTS[name]) for name in BY_PRESET} | {"preset": ""}


@pytest.mark.parametrize(
    ("entry", "values", "arguments"),
    [
        ("main", ["--k", "100", "--loss", "self_adversarial"], ["run", "--k=100", "--loss=self_adversarial"]),
        ("main", ["--k", "", "--force", "false", "--training_strategy", "", "--dataset", ""], ["run"]),
        ("main", ["--calibration_filtered", "true"], ["run", "--calibration-filtered"]),
        ("main", ["--base_rate", ".2", "--force", "True"], ["run", "--base-rate=.2", "--force"]),
        ("main", ["--device", "auto"], ["run", "--device=auto"]),
        ("train", ["--sides_apart", "true"], ["train", "--sides-apart"]),
        ("corrupt", ["--calibration_filtered", "false"], ["corrupt", "--no-calibration-filtered"]),
        (
            "train",
            ["--training_strategy", "typed=0.5,uniform=0.5"],
            ["train", "--training-strategy=typed=0.5,uniform=0.5"],
        ),
        ("calibrate", ["--scores", "--force"], ["calibrate", "--scores=--force"]),
        ("calibrate", ["--scores", ""], ["calibrate"]),
        ("ensemble", ["--runs", "abc,latest", "--pools", "linear"], ["ensemble", "abc", "latest", "--pools=linear"]),
        ("ensemble", ["--runs", ""], ["ensemble"]),
        (
            "reproduce",
            ["--tables", "losses,ranks", "--datasets", "wn11,fb13"],
            ["reproduce", "losses", "ranks", "--dataset=wn11", "--dataset=fb13"],
        ),
        (
            "reproduce",
            ["--tables", "all", "--presets", "default,paper", "--seeds", "0,2", "--recorded", "true"],
            ["reproduce", "all", "--preset=default", "--preset=paper", "--seed=0", "--seed=2", "--recorded"],
        ),
    ],
)
def test_a_given_value_is_its_option_in_one_word(entry: str, values: list[str], arguments: list[str]) -> None:
    assert translated(entry, values) == arguments


@pytest.mark.parametrize(
    ("entry", "values", "message"),
    [
        ("calibrate", ["--base_rat", "0.2"], "calibrate has no parameter 'base_rat': it has base_rate"),
        ("calibrate", ["--base-rate", "0.2"], "has no parameter 'base-rate': it has base_rate"),
        ("report", ["--zzz", "1"], "report has no parameter 'zzz': it has evaluation, choice, force"),
        ("main", ["--json_path", "out.json"], "main has no parameter 'json_path'"),
        ("train", ["--sides_apart", "yes"], "sides_apart is 'yes': it must be true or false"),
        ("train", ["--k"], "takes --name value for each parameter: '--k' has no value"),
        ("run", [], "there is no entry point 'run': the known ones are main, prepare"),
    ],
)
def test_an_unknown_parameter_is_refused(entry: str, values: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translated(entry, values)
    done = CliRunner().invoke(app, ["project", entry, *values])
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_command_refuses_a_wrong_number() -> None:
    done = CliRunner().invoke(app, ["project", "train", "--k", "many"])
    assert done.exit_code == 2
    assert "Invalid value for '--k'" in done.stderr


def test_the_python_environment_can_be_made() -> None:
    made = yaml.safe_load((CHECKOUT / PROJECT["python_env"]).read_text())
    assert made["dependencies"] == ["-c constraints.txt", "."]  # MLflow installs from within the project
    pins = {}
    for line in (CHECKOUT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            [exact] = pin.specifier
            assert exact.operator == "==", line
            pins[pin.name.lower().replace("_", "-")] = exact.version
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert Requirement(f"python{project['requires-python']}").specifier.contains(made["python"])
    for line in project["dependencies"]:
        asked = Requirement(line)
        assert asked.specifier.contains(pins[asked.name.lower()]), line
