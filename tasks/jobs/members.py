"""The members of an ensemble: calibrated models, their names, and a check that they can form an ensemble."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kgcore.config import CalibrateConfig, TrainConfig
from kgcore.errors import InputError, MismatchError
from kgcore.graph import KnowledgeGraph
from kgcore.score_table import ScoreTable
from tasks.stages.calibrate import completeness_of, scores_of
from tasks.stages.reference import StageRef
from tasks.stages.running import config_of, loss_of
from tasks.tracking.artifacts import CORRUPTIONS, GRAPH
from tasks.tracking.record import DatasetId
from tasks.tracking.store import Store


class Member:
    """A calibrated model, given by its calibrate run.

    inputs     stage -> run id of all upstream runs
    train      settings of its training; the defaults if another library trained it
    loss       loss of its training, or `imported`
    calibrate  settings of its calibration
    order      key to sort members by, so that the order in which a user names them has no effect

    Raises InputError if the run is not a finished calibrate run.
    """

    def __init__(self, store: Store, ref: StageRef) -> None:
        self.store, self.ref = store, ref
        self.run = store.finished(ref.stage, ref.run_id)
        self.inputs = self.run.tags.inputs
        trained = store.known(self.inputs["train"])
        self.train, self.loss = config_of(TrainConfig, trained), loss_of(trained)
        self.calibrate = config_of(CalibrateConfig, self.run).replace(completeness=completeness_of(self.run))
        self.order = (self.train.model, self.train.loss, self.train.seed, ref.run_id)

    @cached_property
    def model_id(self) -> str:
        """Id of the embedding model's LoggedModel."""
        [model_id] = self.store.known(self.inputs["train"]).model_ids
        return model_id

    @property
    def fingerprint(self) -> str:
        """Hash of the embedding model's parameters."""
        return self.store.model(self.model_id).fingerprint

    def calibrators(self) -> dict[str, str]:
        """Return calibrator label -> LoggedModel id, for every calibrator that the run fitted."""
        return {self.store.model(model_id).label: model_id for model_id in self.run.model_ids}

    def scores(self) -> ScoreTable:
        """Load the scores that its calibrators were fitted on, and its test scores.

        The rows of a search (kgcore/score_search.py) are not the same for two models: without them, all have the draws.
        """
        return scores_of(self.inputs, self.calibrate.completeness).without_search()

    def graph(self) -> KnowledgeGraph:
        """Load the graph that it was trained on."""
        return self.store.load(self.inputs["prepare"], GRAPH)

    def dataset(self) -> DatasetId:
        """Return the data set that it was trained on."""
        return self.store.known(self.inputs["prepare"]).dataset


def check_members(members: Sequence[Member]) -> None:
    """Check that members can form an ensemble.

    Raises InputError if there are fewer than two members or a model occurs twice. Raises MismatchError if members
    differ in data set, triples, corruptions, base rate, completeness or weighting.
    """
    if len(members) < 2:
        raise InputError(
            f"an ensemble needs at least two members, not {len(members)}: name the runs of two or more models"
        )
    first = members[0]
    models: dict[str, Member] = {}
    for member in members:
        twin = models.setdefault(member.fingerprint, member)
        if twin is not member:
            raise InputError(
                f"the runs {twin.ref.run_id} and {member.ref.run_id} have the same model: the members of an ensemble "
                "must be different models"
            )
    for member in members[1:]:
        if found := _difference(first, member):
            raise MismatchError(
                f"the runs {first.ref.run_id} and {member.ref.run_id} {found}: the members of an ensemble must "
                "be trained and calibrated on the same data in the same way"
            )


def _difference(first: Member, other: Member) -> str:
    """Return the first difference between two members that makes an ensemble impossible; '' if there is none."""
    one, two = first.dataset(), other.dataset()
    if one.name != two.name:
        return f"have the data sets {one.name} and {two.name}"
    if one.digest != two.digest:
        graph, graph_of_other = first.graph(), other.graph()
        if graph.training_fingerprint() != graph_of_other.training_fingerprint():
            return "have different training triples"
        same_test = graph.test_fingerprint() == graph_of_other.test_fingerprint()
        return "have different validation triples" if same_test else "have different test triples"
    for name, title in (("alpha", "base_rate"), ("weighted", "weighted")):
        values = [getattr(member.calibrate, name) for member in (first, other)]
        if values[0] != values[1]:
            return f"were calibrated with {title} {values[0]} and {values[1]}"
    if first.calibrate.completeness != other.calibrate.completeness:
        return "were calibrated with different completeness"
    return "" if _same_corruptions(first, other) else "were calibrated on different corruptions"


def _same_corruptions(first: Member, other: Member) -> bool:
    if first.inputs["corrupt"] == other.inputs["corrupt"]:
        return True
    one, two = (member.store.load(member.inputs["corrupt"], CORRUPTIONS) for member in (first, other))
    return one.keys() == two.keys() and all(
        np.array_equal(getattr(one[split], name), getattr(two[split], name))
        for split in one
        for name in ("triples", "source", "weights")
    )


def member_names(trainings: Sequence[TrainConfig]) -> list[str]:
    """Return a distinct name for each member.

    The name is the model's. If two members have the same name, the loss, the seed or both are added to all names. If
    names still repeat, a number is added.
    """
    patterns = ("{0.model}", "{0.model}_{0.loss}", "{0.model}_seed_{0.seed}", "{0.model}_{0.loss}_seed_{0.seed}")
    for pattern in patterns:
        names = [pattern.format(training) for training in trainings]
        if len(set(names)) == len(names):
            return names
    return [f"{name}_{number}" for number, name in enumerate(names, start=1)]
