"""The model card of a calibrated model in Markdown: what it was made from, how good it is, its limits, and its use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgcore.base_rate import ASSUMED, STATED
from kgcore.calibrate.calibrated import Calibrated
from kgcore.config import PredictConfig
from kgcore.config.base import value_text
from kgcore.measure.report.data import GENERATION, OWN, shown_settings
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.race import Race
from kgcore.measure.report.result import Brief, ResultTable, table_of
from kgcore.measure.report.results import overview, title
from kgcore.measure.report.summary import Summary

LONGEST = 5000  # characters; MLflow stores no longer description of a version
MOST_NAMES = 5  # predicates that the card lists by name
_TRAINING = (
    *("k", "loss", "epochs", "batch_size", "learning_rate", "training_strategy", "training_sides", "training_eta"),
    *("cohort_weight", "seed"),
)


@dataclass(frozen=True)
class ModelCard:
    """The facts of a model card.

    uri         URI of the version of the registered model
    dataset     name of the data set
    digest      fingerprint of its graph
    counts      name -> count of the data set, such as `entities` and `valid_positives`
    predicates  names of the predicates; the index of a name is the id of the predicate
    settings    stage -> its settings, without the stage train
    trainings   settings of the training of each embedding model: its own, and those of the further models
                whose scores it sees; or one for each member of an ensemble
    label       label of the calibrator, such as `synthetic.isotonic`, or of the ensemble, such as `synthetic.linear`
    calibrator  the calibrator of the model's scores, or of the pooled log-odds
    summary     results of the evaluation that measured it, or of the ensemble's run
    runs        stage -> id of its MLflow run
    race        the race that chose the settings of the training; None: there was none, or it is an ensemble
    """

    uri: str
    dataset: str
    digest: str
    counts: Mapping[str, int]
    predicates: Sequence[str]
    settings: Mapping[str, Mapping[str, object]]
    trainings: Sequence[Mapping[str, object]]
    label: str
    calibrator: Calibrated
    summary: Summary | EnsembleSummary
    runs: Mapping[str, str]
    race: Race | None = None

    def markdown(self) -> str:
        """Return the card, with at most LONGEST characters. If it is longer, the examples leave it first."""
        brief = replace(self.summary.briefs.get(self.label, Brief("")), steps={})
        text = self._text(brief)
        text = text if len(text) <= LONGEST else self._text(replace(brief, examples=()))
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]}...\n"

    def _text(self, brief: Brief) -> str:
        models = " + ".join(str(training.get("model", "")) for training in self.trainings)
        cautions = self.summary.cautions if isinstance(self.summary, Summary) else ()
        parts = [
            f"# {self.dataset}: {models}, {self.label.replace('_', ' ')}",
            "The model gives a triple (subject, predicate, object) of this graph the probability that it is true.",
            *(brief.markdown(), *cautions),
            *("## Use", self._use()),
            *("## Data", self._data()),
            *("## Model", self._model(), *(self.race.sentences() if self.race else ())),
            *("## Calibration", self._calibration(), f"Base rate: {self._base_rate()}"),
            *("## Results", *(note for note in self.summary.notes if note not in cautions), self._results()),
            *("## Limits", "\n".join(f"* {limit}" for limit in self._limits())),
            "Runs: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in self.runs.items()),
        ]
        return "\n\n".join(filter(None, parts)) + "\n"

    def _data(self) -> str:
        counted = {name: self.counts.get(name, 0) for name in ("entities", "predicates")}
        splits = {
            split: [self.counts.get(f"{split}_{label}", 0) for label in ("positives", "negatives")]
            for split in ("train", "valid", "test")
        }
        names = ", ".join(f"{count:,} {name}" for name, count in counted.items())
        held = ", ".join(f"{split} {true:,} true and {false:,} false" for split, (true, false) in splits.items())
        shown = shown_settings({"prepare": self.settings.get("prepare", {})})["prepare"]
        drawn = [name for name in OWN if "split" in name or "share" in name]
        groups = {"Generated": GENERATION, "Files": [name for name in OWN if name not in drawn]}
        groups |= {"Valid and test are drawn": drawn} if "drawn_from_rows" in self.counts else {}
        text = f"{names}. Triples: {held}. Fingerprint `{self.digest}`."
        for origin, group in groups.items():
            if settings := _settings({name: shown[name] for name in group if name in shown}):
                text += f" {origin}: {settings}."
        return text

    def _model(self) -> str:
        models = [
            f"{training.get('model')}: " + _settings({name: training[name] for name in _TRAINING if name in training})
            for training in self.trainings
        ]
        if isinstance(self.summary, EnsembleSummary):
            weights = self.summary.ensembles[self.label].weights.values()
            rows = (f"* weight {weight:.3f}, {model}" for weight, model in zip(weights, models, strict=True))
            pool = self.label.rpartition(".")[2].replace("_", "-")
            return "\n".join([f"An ensemble: the {pool} pool of the probabilities of these models.", "", *rows])
        first, *others = models
        return "\n".join(
            [first, *([""] if others else []), *(f"* further model, its score is evidence: {o}" for o in others)]
        )

    def _calibration(self) -> str:
        bound = self.calibrator
        if bound.mixture is not None:
            return f"{bound.name}, fitted to {bound.mixture.summary}."
        if bound.negatives == "synthetic":
            against, drawn = "corruptions of them", self._drawn()
        else:
            against, drawn = "triples that are labelled false", ""
        if bound.support is None:
            return f"{bound.name}, fitted on validation triples and {against}{drawn}.{self._hidden()}"
        true, false = (sum(both[side] for both in bound.support.rows.values()) for side in (0, 1))
        beneath = sum(bound.support.corruptions.values()) if bound.combined else 0
        scores = f" The scores that it calibrates are fitted to {beneath:,} corruptions." if beneath else ""
        return (
            f"{bound.name}, fitted on {true:,} true validation triples and {false:,} {against}{drawn}.{scores}"
            f"{self._hidden()}"
        )

    def _hidden(self) -> str:
        """Return how many of its corruptions are estimated to be true; '' if that is not known, or if none are."""
        hidden = self.calibrator.hidden
        return f" {hidden.sentence()}" if hidden and hidden.share else ""

    def _drawn(self) -> str:
        """Return how the corruptions were drawn, in parentheses; '' if it is unknown."""
        drawn = self.calibrator.corruptions
        if drawn is None:
            return ""
        known = "without known facts" if drawn.filtered else "with known facts among them"
        return f" ({value_text(drawn.strategy)}; side replaced: {drawn.sides}; {known})"

    def _base_rate(self) -> str:
        """Return the base rate, and where it comes from."""
        bound = self.calibrator
        rate = bound.rate.figures if bound.rate.limits else f"{bound.base_rate:.4g}"
        if bound.fitted_at is not None:
            return f"{rate}, **stated**. The probabilities are shifted to it; the fit was at {bound.fitted_at:.4g}."
        origin = bound.rate.origin
        if bound.negatives == "ground_truth" and origin != STATED:
            return f"{rate}, **estimated**: the share of true triples among the labelled validation triples."
        if origin == ASSUMED:
            return f"{rate}, **assumed**: it is the default. State the share of true triples among your candidates."
        return f"{rate}, **{origin}**."

    def _results(self) -> str:
        negatives, _, name = self.label.rpartition(".")
        row = self.summary.results.row(negatives, name)
        level = self.settings.get("evaluate", {}).get("bootstrap_level")
        head = f"{float(level):.0%} interval" if isinstance(level, int | float) else "interval"
        ends = {name: f"{low:.4f} to {high:.4f}" for name, (low, high) in row.intervals.items()}
        shown = [name for name in overview() if name in row.metrics]
        cells = ((title(name), f"{row.metrics[name]:.4f}", ends.get(name, "")) for name in shown)
        return ResultTable(rows=table_of(("metric", "value", head), cells)).markdown()

    def _limits(self) -> list[str]:
        bound = self.calibrator
        kinds = {"synthetic": "corruptions of the calibration", "candidates": "false triples among its candidates"}
        kind = kinds.get(bound.negatives, "triples of the calibration that are labelled false")
        limits = [
            f"The false triples among your candidates must resemble the {kind}.",
            "The probabilities assume the base rate above. `base_rate` shifts them to that of your candidates.",
            "Triples with an entity or a predicate that is not in train have no answer.",
            "A metric without an interval is biased on a finite sample: an interval would often miss its true value.",
        ]
        names, least = np.array(self.predicates), PredictConfig().at_least
        few = names[bound.support.fewest(np.arange(len(names))) < least].tolist() if bound.support else []
        if few:
            shown = ", ".join(f"`{name}`" for name in few[:MOST_NAMES]) + (", ..." if len(few) > MOST_NAMES else "")
            limits.append(
                f"{len(few):,} of {len(names):,} predicates have fewer than {least} "
                f"calibration triples, true or false: {shown}. Their triples have no answer unless `at_least` is lower."
            )
        return limits

    def _use(self) -> str:
        return (
            "```sh\n"
            f"kgcal predict candidates.tsv -o answers.parquet --model {self.uri}\n"
            f"mlflow models serve --env-manager local -m {self.uri}\n"
            "```\n\n"
            "```python\n"
            f'mlflow.pyfunc.load_model("{self.uri}").predict(frame, params={{"base_rate": 0.1}})\n'
            "```"
        )


def _settings(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value_text(value)}" for name, value in settings.items())
