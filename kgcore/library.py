"""kgcal from Python: read a graph, train a model, calibrate it, measure it, save it, load it. `import kgcore as kg`.

The functions call what the stages of the pipeline call, in the same order and with the same random numbers. So they
give the probabilities of `kgcal run` with the same settings. They need no server and no store.
"""

import logging
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.loaded import LoadedModel, load_folder
from kgcore.answer.measured import MeasuredModel
from kgcore.calibrate.fit import calibration_bases, fit_calibrators
from kgcore.calibrate.validation import answering_label
from kgcore.combiners.fit import Material, fit_evidence
from kgcore.combiners.hidden import with_hidden_facts
from kgcore.combiners.unseen import fit_unseen
from kgcore.config import (
    CalibrateConfig,
    ChooseConfig,
    ClassifyConfig,
    CorruptConfig,
    EvidenceConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    presets,
)
from kgcore.config.base import divided
from kgcore.config.race import RaceConfig
from kgcore.data.completeness import read_completeness
from kgcore.data.datasets.base import used_settings
from kgcore.data.datasets.labels import read_labels, with_labels
from kgcore.data.datasets.prepare import read_dataset
from kgcore.data.datasets.read import UnseenRows
from kgcore.data.frames import Frames, Rows, table_of, tables_named, written
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Corruptions
from kgcore.embed.corruptions.held_out import Further, corrupted
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train as fit_model
from kgcore.errors import InputError, MismatchError, check_type
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features, rows_with_evidence
from kgcore.measure.evaluation.evaluate import kept_sources
from kgcore.measure.evaluation.predictions import classify
from kgcore.measure.report.graph_findings import data_report
from kgcore.measure.report.race import Race
from kgcore.measure.report.summary import BESIDE, rate_beside
from kgcore.scores.search import searched_table
from kgcore.scores.table import TableEvidence, score_table
from kgcore.wings.tuning.race import Track, choose
from kgcore.workers import find_device

log = logging.getLogger("kgcal")
CACHE = Path("Library/Caches" if sys.platform == "darwin" else ".cache") / "kgcal"  # of public data sets, in the home
READ = "the result of kgcore.read"


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class ReadGraph(KnowledgeGraph):
    """A graph, with the settings with which it was read, and the held-out rows with entities that train lacks."""

    config: PrepareConfig
    unseen: UnseenRows | None = None

    def __repr__(self) -> str:
        splits = ((name, getattr(self, name)) for name in ("train", "valid", "test"))
        sizes = ", ".join(f"{name} {len(s.positives):,} true and {len(s.negatives):,} false" for name, s in splits)
        names = f"{len(self.entities):,} entities, {len(self.predicates):,} predicates"
        return f"graph {self.name}: {names}\ntriples: {sizes}"

    def with_labels(self, labels: str | PathLike[str] | pd.DataFrame, *, instead: bool = False) -> "ReadGraph":
        """Return the graph with newly labelled triples in valid, and log how many are used.

        labels   a file, or a table with the columns subject, predicate, object and label: see `read_labels`
        instead  whether the labelled triples replace valid. If not, they are added to it

        Train does not change, so a model of the graph can be calibrated with the new graph. If the labels bring the
        first negatives of valid, their share of true triples is the base rate of `calibrate`, unless one is stated.
        Raises InputError if the labels have faults, if none can be used, or if the graph already has such a base rate.

        >>> import kgcore as kg, pandas as pd
        >>> facts = [(f"drug{i % 9}", "treats", f"disease{i % 7}") for i in range(60)]
        >>> graph = kg.read(pd.DataFrame(facts, columns=["subject", "predicate", "object"]), name="drugs")
        >>> judged = [("drug6", "treats", "disease4", -1), ("drug7", "treats", "disease5", -1)]
        >>> graph.with_labels(pd.DataFrame(judged, columns=["subject", "predicate", "object", "label"]))
        graph drugs: 16 entities, 1 predicates
        triples: train 48 true and 0 false, valid 6 true and 2 false, test 6 true and 0 false
        """
        if self.labelled_base_rate is not None:
            raise InputError("the graph has labels already: give all of them at once to the graph without labels")
        with tempfile.TemporaryDirectory(prefix="kgcal-") as work:
            tables = Path(work) / "labels"
            check_type("labels", labels, str | PathLike | pd.DataFrame, "a file or a table")
            if isinstance(labels, pd.DataFrame):
                labels = written({"labels": labels}, tables) / "labels.parquet"
            with tables_named(tables):
                prepared = with_labels(self, read_labels(Path(labels)), instead)
        log.info(prepared.labels_note())
        assert isinstance(prepared.graph, ReadGraph)
        return prepared.graph


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RecordedModel(TrainedModel):
    """A trained model, with the record of its training.

    config    its settings
    losses    mean loss of a positive, for each epoch
    graph     name of the graph, and the fingerprint of its training triples
    race      the race that chose the settings; None: there was none
    """

    config: TrainConfig
    losses: Sequence[float]
    graph: tuple[str, str]
    race: Race | None = None

    def __repr__(self) -> str:
        entities, predicates = self.sizes
        trained = f"{len(self.losses)} epochs on {self.graph[0]}, loss {self.losses[-1]:.4f}"
        size = f"{self.config.loss}, k={self.k}, {entities:,} entities, {predicates:,} predicates"
        chosen = [f"chosen by a race: {self.race.winner.name}"] if self.race and not self.race.no_race else []
        return "\n".join([f"model {self.name}: {size}", trained, *chosen])


def read(
    source: str | PathLike[str] | Frames | Rows,
    *,
    name: str | None = None,
    mirror: str | None = None,
    folder: str | PathLike[str] | None = None,
    progress: bool = True,
    **settings: Any,
) -> ReadGraph:
    """Read a graph, and log what `kgcal prepare` says about the data.

    source    a folder, a file, the name of a public data set; a table with the columns subject, predicate, object and
              perhaps label, or a table for each of train, valid and test; or n triples, such as an array (n, 3)
    name      name of the graph; None: that of the folder or file, or `graph`
    mirror    folder or URL that has the public data sets; None: their public hosts
    folder    where public and generated data sets are kept; None: the user's cache
    settings  of PrepareConfig: split, valid_share, columns, ...

    Raises InputError for an unknown setting, data that cannot be used, and a download that fails.

    >>> import kgcore as kg, pandas as pd
    >>> kg.read("family", size=300)
    graph family: 322 entities, 10 predicates
    triples: train 2,836 true and 0 false, valid 623 true and 621 false, test 417 true and 417 false
    >>> facts = [(f"drug{i % 9}", "treats", f"disease{i % 7}") for i in range(60)]
    >>> kg.read(pd.DataFrame(facts, columns=["subject", "predicate", "object"]), name="drugs")
    graph drugs: 16 entities, 1 predicates
    triples: train 48 true and 0 false, valid 6 true and 0 false, test 6 true and 0 false
    """
    root = Path.home() / CACHE if folder is None else Path(folder)
    with tempfile.TemporaryDirectory(prefix="kgcal-") as work:
        tables = Path(work) / "graph"
        if not isinstance(source, str | PathLike):
            source = written(source if isinstance(source, pd.DataFrame | Mapping) else table_of(source), tables)
        config = PrepareConfig(**divided({"dataset": str(source), **settings}, PrepareConfig)[0])
        with tables_named(tables):
            used_settings(config)  # raises for those that the data set cannot have
            bars = partial(tqdm, unit="B", unit_scale=True) if progress else None
            prepared = read_dataset(config, root, mirror, bars)
    for note in data_report(prepared, config.split)[1]:
        log.warning(note)
    graph = replace(prepared.graph, name=name or prepared.graph.name)
    return ReadGraph(**_fields(graph), config=config, unseen=prepared.unseen)


def train(
    graph: KnowledgeGraph,
    model: str | None = None,
    *,
    preset: str | None = None,
    loss: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **settings: Any,
) -> RecordedModel:
    """Train a model on the train split of a graph.

    model, loss  registered names; None: the choice of the preset
    preset       auto (a race on valid), default, best, paper or none, for the settings that are not given; None: as
                 `kgcal run`, default for data sets whose settings are known, auto for any other graph
    device       auto, cpu, cuda or cuda:N
    settings     of TrainConfig and ChooseConfig: k, epochs, minutes (of the race), ...

    Raises InputError for an unknown or contradictory setting, and FitError if the loss does not stay finite.

    >>> import kgcore as kg
    >>> graph = kg.read("family", size=300)
    >>> kg.train(graph, "complex", k=20, epochs=2)  # doctest: +ELLIPSIS
    model complex: self_adversarial, k=20, 322 entities, 10 predicates
    2 epochs on family, loss ...
    """
    check_type("the graph", graph, KnowledgeGraph, READ)
    given = {"model": model, "loss": loss, "seed": seed or None} | settings
    own, of_race = divided(given, TrainConfig, ChooseConfig)
    known = PipelineConfigs(_read_with(graph), TrainConfig(**own), choose=ChooseConfig(**of_race))
    configs = presets.resolve(preset, known).configs
    config, race, checkpoint, where = configs.train, None, None, find_device(device)
    with tempfile.TemporaryDirectory(prefix="kgcal-") as folder:
        if isinstance(configs.choose, RaceConfig):
            track = Track(where, Path(folder), 60 * configs.choose.minutes or math.inf)
            without_test = replace(graph, test=Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0)))
            with _bar("race", 100, progress) as bar:
                race, checkpoint = choose(
                    without_test, configs.choose, track, lambda share, word: bar(round(100 * share), word)
                )
            config = TrainConfig(**race.winner.settings)
        with _bar(f"train {config.model}", config.epochs, progress) as bar:

            def on_epoch(epoch: int, loss: float) -> None:
                bar(epoch, f"loss {loss:.4f}")

            if config.partitions > 1:
                from kgcore.wings.partitions import train_in_partitions

                done = train_in_partitions(graph, config, where, Path(folder) / "partitions", on_epoch=on_epoch)
            else:
                done = fit_model(graph, config, where, checkpoint, math.inf, on_epoch)
    of = graph.name, graph.training_fingerprint()
    trained = done.model.to(find_device("cpu"))
    return RecordedModel(**_fields(trained), config=config, losses=done.losses, graph=of, race=race)


def calibrate(
    model: TrainedModel,
    graph: KnowledgeGraph,
    *,
    base_rate: float | str | None = None,
    calibrators: str | Sequence[str] | None = None,
    completeness: float | str | None = None,
    negatives: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    **settings: Any,
) -> MeasuredModel:
    """Fit calibrators to valid. The one that is best there answers: it has the lowest cross-fitted Brier score.

    base_rate     share of true triples among your candidates, in (0, 1), or text LOW:HIGH; None: that of the first
                  labels of the graph, if there are any, or else 0.5
    calibrators   registered names; None: the default ones, of the score and of evidence
    completeness  share of the true facts that the graph knows, in (0, 1), or text as in `read_completeness`
    negatives     ground_truth or synthetic: the negatives of the calibrator that answers. None: labelled ones if there
                  are enough: see `answering_kinds`
    seed          of the corruptions and of the fits
    device        that scores: auto, cpu, cuda or cuda:N
    settings      of CorruptConfig, CalibrateConfig and EvidenceConfig: calibration_strategy, evidence, ...

    Raises InputError for an unknown or contradictory setting, MismatchError if the model was trained on other triples,
    and FitError if a fit does not converge.

    >>> import kgcore as kg, pandas as pd
    >>> graph = kg.read("family", size=300)
    >>> model = kg.train(graph, "transe", epochs=20)
    >>> calibrated = kg.calibrate(model, graph, base_rate=0.1, calibrators=["platt", "isotonic"], calibration_eta=5)
    >>> calibrated["synthetic.platt"]  # doctest: +ELLIPSIS
    calibrated model of family: synthetic.platt, base rate 0.1, stated
    Brier score on test: ...
    other calibrators: uncalibrated, base_rate, ...
    >>> asked = pd.DataFrame({"subject": ["person_2"], "predicate": ["spouse_of"], "object": ["person_3"]})
    >>> calibrated.predict(asked).columns.tolist()[:5]
    ['subject', 'predicate', 'object', 'score', 'probability']
    """
    _check_match(model, graph)
    calibrators = (calibrators,) if isinstance(calibrators, str) else calibrators
    stated = None if completeness is None else str(completeness)
    given = {"base_rate": base_rate, "calibrators": calibrators, "completeness": stated}
    configs = _configs(graph, seed, given | settings)
    made = corrupted(graph, configs.corrupt, model)
    further = Further.of(graph, configs.corrupt, made["valid"], model)
    material = _material(model.to(find_device(device)), graph, made, further, configs, progress)
    table, rate = material.table, material.config.rate.value
    result = fit_evidence(material, fit_calibrators(table, material.config, material.bases))
    predictions = classify(table, result.fitted, len(graph.predicates), rate, ClassifyConfig(), material.evidence)
    source = None
    if predictions.synthetic_negatives:
        source = kept_sources(made["test"].source, graph.test.positives[:, 1], made["test"].triples[:, 1])
    wanted = [bound for bound in result.fitted if negatives in (None, bound.negatives)]
    if not (answers := answering_label(wanted, result.audits)):
        raise InputError(f"no calibrator has negatives of the kind {negatives!r}: leave out negatives")
    first = CalibratedModel(model, result.fitted[0], graph)
    return _with_warning(MeasuredModel(first, result.fitted, predictions, source, material.cold)[answers])


def _with_warning(model: MeasuredModel) -> MeasuredModel:
    """Return the model. Warn if a base rate is stated that it does not have, because it learned from labels."""
    if beside := rate_beside(model.calibrated.calibrator, model.fitted):
        log.warning("%s answers: its probabilities %s", model.label, BESIDE.format(rate=beside.figures))
    return model


def _check_match(model: TrainedModel, graph: KnowledgeGraph) -> None:
    """Raise InputError for arguments of other types, and MismatchError if the model was trained on other triples."""
    check_type("the model", model, TrainedModel, "the result of kgcore.train")
    check_type("the graph", graph, KnowledgeGraph, READ)
    if isinstance(model, RecordedModel) and model.graph[1] != graph.training_fingerprint():
        raise MismatchError(f"the model was trained on other triples than those of {graph.name}: use its graph")


def load(folder: str | PathLike[str]) -> LoadedModel:
    """Load a calibrated model from the folder of `save`, or of a registered version: see `load_folder`.

    >>> import kgcore as kg
    >>> graph = kg.read("family", size=300)
    >>> model = kg.train(graph, "transe", epochs=2)
    >>> kg.calibrate(model, graph, calibrators="platt", calibration_eta=5).save("model")
    >>> kg.load("model")
    calibrated model of family: ground_truth.platt, base rate 0.501, estimated
    """
    return load_folder(folder)


def _configs(graph: KnowledgeGraph, seed: int, given: Mapping[str, Any]) -> PipelineConfigs:
    """Return the settings of a pipeline on a graph, with these ones of the stages from corrupt to calibrate."""
    seeds = dict.fromkeys(("calibration_seed", "combine_seed", "unseen_seed"), seed or None)
    parts = divided({**seeds, **given}, CorruptConfig, CalibrateConfig, EvidenceConfig)
    corrupt, fit, seen = CorruptConfig(**parts[0]), CalibrateConfig(**parts[1]), EvidenceConfig(**parts[2])
    fit = fit if fit.base_rate or graph.labelled_base_rate is None else fit.at(graph.labelled_base_rate)
    known = PipelineConfigs(_read_with(graph), corrupt=corrupt, calibrate=fit, evidence=seen)
    return presets.resolve("default", known).configs


def _material(
    model: TrainedModel,
    graph: KnowledgeGraph,
    made: dict[str, Corruptions],
    further: Further | None,
    configs: PipelineConfigs,
    shown: bool,
) -> Material:
    """Score the held-out triples and their corruptions, and compute evidence, as the stages of the pipeline do."""
    prepare, corrupt, config = configs.prepare, configs.corrupt, configs.calibrate
    shares, cold = None, prepare.split_rule.cold_column
    if config.completeness:
        shares = read_completeness(config.completeness, graph)
        shares.missing(np.unique(graph.valid.positives[:, 1]))  # a file may lack a predicate
    table = score_table(graph, made, model, cold)
    if further is not None:
        with _bar("search", further.most, shown) as bar:
            table = searched_table(table, further, model, on_block=lambda rows: bar(min(rows, further.most)))
    table = replace(with_hidden_facts(table, graph, model, corrupt), completeness=shares)
    labels = len(graph.valid.positives), len(graph.valid.negatives)
    evidence, unseen = None, None
    if config.can_combine(*labels, bool(prepare.given_confidence)):
        rows, groups = rows_with_evidence(table, configs.evidence.evidence)
        features = Features.of(Source(graph, model), groups)
        evidence = TableEvidence(rows.nonzero()[0], features.evidence(table.triples[rows]), groups)
        if isinstance(graph, ReadGraph) and (held := graph.unseen):
            unseen = fit_unseen(graph, held.names, held.splits, features, table, configs.evidence)
    bases, source = calibration_bases(table, config, corrupt), made["valid"].source
    return Material(table, config, bases, source, cold, evidence=evidence, unseen=unseen[0] if unseen else None)


def _fields(value: KnowledgeGraph | TrainedModel) -> Mapping[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _read_with(graph: KnowledgeGraph) -> PrepareConfig:
    return graph.config if isinstance(graph, ReadGraph) else PrepareConfig(dataset=graph.name)


@contextmanager
def _bar(title: str, total: int, shown: bool) -> Iterator[Callable[..., None]]:
    """Show a progress bar. Yield a function `move(done, word)`."""
    with tqdm(desc=title, total=total, disable=not shown) as bar:

        def move(done: int, word: str = "") -> None:
            bar.set_postfix_str(word, refresh=False)
            bar.update(done - bar.n)

        yield move
