"""The members of an ensemble: calibrated models, and whether they belong together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kgcore import storage
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError, MismatchError
from kgcore.graph import KnowledgeGraph
from kgcore.score_table import ScoreTable
from tasks.stages.base import StageRef, checked, config_of, inputs, load_config
from tasks.tracking.store import Store


class Member:
    """A calibrated model, by its calibrate run.

    inputs     stage -> run id of what it came from
    settings   of its training
    calibrate  how it was calibrated
    order      what members are sorted by, so that it does not matter how they were named
    """

    def __init__(self, store: Store, ref: StageRef) -> None:
        self.store, self.ref = store, ref
        self.inputs = inputs(checked(store, ref))
        self.settings = load_config(StageRef("train", self.inputs["train"]))
        self.calibrate = config_of(CalibrateConfig, ref)
        self.order = (self.settings["model"], self.settings["loss"], self.settings["seed"], ref.run_id)

    @property
    def model_id(self) -> str:
        """The LoggedModel of the embedding model."""
        [model_id] = self.store.model_ids(self.inputs["train"])
        return model_id

    @property
    def fingerprint(self) -> str:
        """What the embedding model is told apart by."""
        return str(self.store.client.get_logged_model(self.model_id).tags["fingerprint"])

    def calibrators(self) -> dict[str, str]:
        """Label -> LoggedModel of the calibrators that were fitted."""
        made = self.store.model_ids(self.ref.run_id)
        return {self.store.client.get_logged_model(model_id).tags["label"]: model_id for model_id in made}

    def scores(self) -> ScoreTable:
        """The scores it was calibrated on."""
        return self.store.load(self.inputs["score"], "scores.parquet", storage.read_scores)

    def graph(self) -> KnowledgeGraph:
        """The graph it was trained on."""
        return self.store.load(self.inputs["prepare"], "graph", storage.read_graph)

    def prepared(self) -> Mapping[str, str]:
        """What tells its data set from others."""
        tags = self.store.run(self.inputs["prepare"]).data.tags
        return {name: tags[f"kgcal.{name}"] for name in ("dataset", "digest")}


def check_members(members: Sequence[Member]) -> None:
    """Raise InputError or MismatchError, a sentence, where members cannot be an ensemble: fewer than two, one model
    twice, other triples, corruptions or base rates."""
    if len(members) < 2:
        raise InputError("an ensemble needs at least two members: name the runs of two or more models")
    first = members[0]
    models: dict[str, Member] = {}
    for member in members:
        twin = models.setdefault(member.fingerprint, member)
        if twin is not member:
            raise InputError(
                f"the runs {twin.ref.run_id} and {member.ref.run_id} have the same model: each member of an ensemble "
                "is another"
            )
    for member in members[1:]:
        if found := _difference(first, member):
            raise MismatchError(
                f"the runs {first.ref.run_id} and {member.ref.run_id} {found}: the members of an ensemble must agree "
                "in that"
            )


def _difference(first: Member, other: Member) -> str:
    """What two members do not have in common, if there is anything."""
    one, two = first.prepared(), other.prepared()
    if one["dataset"] != two["dataset"]:
        return f"are of the data sets {one['dataset']} and {two['dataset']}"
    if one["digest"] != two["digest"]:
        graph, graph_of_other = first.graph(), other.graph()
        if graph.training_fingerprint() != graph_of_other.training_fingerprint():
            return "have other training triples"
        same_test = graph.test_fingerprint() == graph_of_other.test_fingerprint()
        return "have other validation triples" if same_test else "have other test triples"
    for name in ("base_rate", "weighted"):
        values = (getattr(member.calibrate, name) for member in (first, other))
        if len(set(told := list(values))) > 1:
            return f"were calibrated with {name} {told[0]} and {told[1]}"
    return "" if _same_corruptions(first, other) else "were calibrated on other corruptions"


def _same_corruptions(first: Member, other: Member) -> bool:
    if first.inputs["corrupt"] == other.inputs["corrupt"]:
        return True
    one, two = (
        member.store.load(member.inputs["corrupt"], "corruptions.parquet", storage.read_corruptions)
        for member in (first, other)
    )
    return one.keys() == two.keys() and all(
        np.array_equal(getattr(one[split], name), getattr(two[split], name))
        for split in one
        for name in ("triples", "source")
    )


def member_names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each training: the model, with loss or seed or both where that tells them apart, or else with its
    place."""
    patterns = ("{model}", "{model}_{loss}", "{model}_seed_{seed}", "{model}_{loss}_seed_{seed}")
    for pattern in patterns:
        names = [pattern.format(**own) for own in settings]
        if len(set(names)) == len(names):
            return names
    return [f"{name}_{number}" for number, name in enumerate(names, start=1)]
