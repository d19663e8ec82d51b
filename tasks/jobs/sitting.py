"""A sitting of the exam: one comparison of candidates, on the same questions and at the same base rate."""

import logging
from dataclasses import dataclass, field

import numpy as np

from kgcore.arrays import Bools, Probabilities
from kgcore.calibrated import CalibratedModel
from kgcore.config import GateConfig
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.monitoring.exam import TEST, Exam, Paper
from kgcore.monitoring.gate import Verdict, gate, level_of
from tasks.jobs.candidates import Candidate, Choice, miscalibration
from tasks.tracking.keys import digest
from tasks.tracking.record import RunTags
from tasks.tracking.registry import load_calibrated
from tasks.tracking.store import Store

log = logging.getLogger("kgcal")
FEWEST_TRIPLES = 50  # a comparison needs at least so many questions that are new to both models


@dataclass(frozen=True)
class Sheet:
    """What the candidates of a sitting are judged on: questions and base rate, and who was judged on them before.

    paper      the questions
    base_rate  the base rate of the weights; None: the share of true triples among the field labels
    said       where the base rate comes from, as words
    number     number of this sitting among all sittings of the same era, from 1
    judged     contents of the candidates that were judged on these questions at this base rate
    exam       version of the exam
    """

    paper: Paper
    base_rate: float | None
    said: str
    number: int
    judged: frozenset[str]
    exam: int

    @property
    def identity(self) -> str:
        """Return a hash of the questions and the base rate."""
        return digest([self.paper.digest, self.base_rate])[:16]

    def challengers(self, choice: Choice) -> int:
        """Return by how many challengers the level of a sitting is divided.

        Candidates were chosen by their Brier score on test. If test has the questions, a calibrator that was not chosen
        counts, too: the best of several equal ones is better than the champion by chance. Field labels chose nobody.
        """
        return choice.calibrators if self.paper.era == TEST else len(choice.candidates)

    def described(self) -> str:
        """Return the kind of the questions and the base rate, as words."""
        if self.paper.era == TEST:
            kind = "the positives and corruptions of test" if self.paper.synthetic else "the test split"
        else:
            kind = f"{len(self.paper):,} field labels"
        return f"exam version {self.exam} ({kind}, {self.said})"


def sheet_of(store: Store, exam: Exam, base_rate: float | None, said: str, config: GateConfig) -> Sheet:
    """Return the sheet of the next sitting.

    base_rate  the base rate of the test part; None: of field labels, their share of true triples
    said       where `base_rate` comes from
    """
    paper = exam.paper(config.field_labels)
    first = Sheet(paper, base_rate, said, 1, frozenset(), exam.version)
    runs = store.find_all(RunTags(stage="promote", dataset=exam.dataset, era=str(paper.era)))
    judged = [content for run in runs if run.tags.paper == first.identity for content in run.tags.judged or ()]
    return Sheet(paper, base_rate, said, 1 + len(runs), frozenset(judged), exam.version)


@dataclass
class StoredAnswers:
    """Probabilities of models for the questions of a paper. The scores of an embedding model are computed once."""

    store: Store
    paper: Paper
    _scores: dict[str, tuple[Bools, Probabilities]] = field(default_factory=dict)

    def of(self, model: CalibratedModel, graph_id: str) -> tuple[Probabilities, Bools]:
        """Return probabilities (n,), and a mask (n,) of the questions that the model knows and was not fitted to.

        graph_id  hash of the model's graph
        """
        key = f"{model.trained.fingerprint()} {graph_id}"
        triples, known = model.graph.number(self.paper.names)
        if key not in self._scores:
            scores = np.full(len(self.paper), np.nan)
            scores[known] = model.trained.score(triples[known])
            self._scores[key] = (known, scores)
        known, scores = self._scores[key]
        q = np.full(len(self.paper), np.nan)
        q[known] = model.calibrator.predict(scores[known], model.trained.fingerprint(), triples[known, 1])
        return q, known & ~model.fitted_on(self.paper.names)


@dataclass(frozen=True)
class Judged:
    """A candidate and the verdict on it.

    refused  why it does not pass whatever the verdict is: its calibration error on its own test; '': nothing is against
             it
    """

    candidate: Candidate
    verdict: Verdict
    refused: str = ""

    @property
    def passed(self) -> bool:
        """Whether it may become the champion."""
        return self.verdict.passed and not self.refused

    def reason(self) -> str:
        """Return the comparison as a clause, and what is against it as a sentence."""
        return self.verdict.reason() + (f". {self.refused.removesuffix('.')}" if self.refused else "")


def sit(
    store: Store, sheet: Sheet, champion: CalibratedModel | None, choice: Choice, config: GateConfig
) -> list[Judged]:
    """Compare candidates with the champion on the same questions. Return the best first.

    The level is divided by the number of challengers (`Sheet.challengers`).

    Those that pass come first, and then the largest gain. A candidate or a champion that was fitted to some questions
    is judged without these. A candidate is judged only if at least FEWEST_TRIPLES questions remain.

    Raises InputError if fewer remain for the champion, or for every candidate, or if the champion has another graph.
    """
    answers, candidates = StoredAnswers(store, sheet.paper), choice.candidates
    level = level_of(sheet.number, sheet.challengers(choice), 1 - config.level)
    theirs, allowed = None, np.ones(len(sheet.paper), dtype=bool)
    if champion is not None:
        theirs, allowed = answers.of(champion, champion.graph.fingerprint())
        _check_enough(allowed, "the champion")
    judged, most = [], np.zeros(len(sheet.paper), dtype=bool)
    for number, candidate in enumerate(candidates, start=1):
        log.info("challenger %d of %d: %s", number, len(candidates), candidate.words)
        model = load_calibrated(store, candidate.model_id)
        if champion is not None:
            check_same_graph(model.graph, champion)
        q, own = answers.of(model, model.graph.fingerprint())
        most = own if own.sum() > most.sum() else most
        if (own & allowed).sum() < FEWEST_TRIPLES:
            continue
        chosen, rows = sheet.paper.rows(own & allowed, sheet.base_rate)
        verdict = gate(q[chosen], None if theirs is None else theirs[chosen], rows, config, level)
        judged.append(Judged(candidate, verdict, miscalibration(store, candidate.evaluate, model.label)))
    if not judged:
        _check_enough(most & allowed, "every challenger")
    return sorted(judged, key=lambda one: (not one.passed, -one.verdict.brier.value))


def _check_enough(rows: Bools, whose: str) -> None:
    if rows.sum() < FEWEST_TRIPLES:
        raise InputError(
            f"{int(rows.sum()):,} triples of the exam are new to {whose}: at least {FEWEST_TRIPLES} are needed"
        )


def check_same_graph(graph: KnowledgeGraph, champion: CalibratedModel) -> None:
    """Raise InputError if the champion was trained on a different graph with the same name."""
    theirs = champion.graph.names_of(champion.graph.train.triples)
    triples, known = graph.number(theirs)
    shared = graph.index(graph.train.triples).contains(triples[known]).sum() / len(theirs)
    if shared < 0.5:
        raise InputError(
            f"the champion of {graph.name} was trained on a different graph with the same name: only {shared:.0%} of "
            "its training triples are in this graph, and at least 50% are needed. Rename the data set, or remove the "
            "alias `champion`"
        )
