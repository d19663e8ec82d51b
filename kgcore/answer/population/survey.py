"""The survey of a population: drawn candidates and validation facts, with log-odds of their evidence.

Validation facts are true triples that training lacks, as the true candidates are. A combiner learns to tell them from
drawn candidates, most of which are false. Its log-odds estimate log f+ / f_u up to a constant: f+ is the density of the
true candidates, f_u that of all candidates. No label, no corruption and no base rate is needed for them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kgcore.answer.population.draw import DrawnCandidates, DrawSize, draw
from kgcore.answer.population.population import FEWEST_FACTS, Population
from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.combiners.base import Combined, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.joined import Folded
from kgcore.config import EvidenceConfig
from kgcore.config.calibrate import FOLD, HELD_OUT_FACTS, OTHER_SCORES
from kgcore.data.graph import KnowledgeGraph
from kgcore.data.stored_twins import Twins
from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.fold import FOLDS, fold_of
from kgcore.evidence.pairs import Rules
from kgcore.evidence.table import Features
from kgcore.registries import STORED
from kgcore.scores.table import Evidence
from kgcore.storage.folders import read_json, write_json
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table
from kgcore.workers import EachPart, OnPart, one_by_one

if TYPE_CHECKING:  # torch takes more than a second to load
    from kgcore.embed.models.trained import TrainedModel

COMBINER = "boosted_trees"
ROWS, FACTS, COMBINED = "candidates.parquet", "facts.parquet", "combined.json"  # the files of a survey
CANDIDATES_A_FACT = 10  # candidates of a sample, for each validation fact
LIMITS = {"lowest": -math.inf, "rules": math.inf}  # of the top, and what stands for no limit
SAMPLE = (20_000, 60_000)  # fewest and most candidates of a sample
SHARE_OF_TOP = 0.5  # least share of the top in the weight of a sample's candidates


@STORED.register("survey")
@dataclass(frozen=True)
class Survey:
    """Drawn candidates and validation facts, with log-odds by combiners that have not seen them.

    drawn        the candidates (n)
    log_odds     (n,) of the candidates
    facts        (m, 3) validation facts of the population
    of_facts     (m,) log-odds of the facts
    facts_in_top (m,) whether a fact is as promising as the candidates of the top, which are all drawn
    combined     the combiners, which give every triple its log-odds
    twin_shares  (n,) of a candidate with a twin in train, the share of its predicate's missing true triples that have
                 one (`Twins.shares`); 0 of other candidates
    """

    drawn: DrawnCandidates
    log_odds: Floats
    facts: Triples
    of_facts: Floats
    facts_in_top: Bools
    combined: Combined
    twin_shares: Floats

    def rows_with_twin(self, predicate: int) -> Ints:
        """Return the rows of a predicate's candidates with a twin."""
        return _rows_with_twin(self.drawn, self.twin_shares, predicate)

    def with_twins(self, shares: Mapping[int, float], rng: np.random.Generator) -> "Survey":
        """Return the survey in which candidates with a twin stand for some facts of each predicate.

        shares  predicate -> share of its facts that such candidates replace, at most 1

        Validation facts have no twins, but this share of the true candidates has one. The replaced facts are drawn at
        random, and so are the candidates, because all with a twin count as equally likely to be true.
        """
        if not shares:
            return self
        kept, drawn = np.ones(len(self.facts), dtype=bool), []
        for predicate, share in shares.items():
            facts = np.flatnonzero(self.facts[:, 1] == predicate)
            count = round(share * len(facts))
            kept[rng.permutation(facts)[:count]] = False
            drawn.append(_some(self.drawn, self.rows_with_twin(predicate), count, rng))
        rows = np.concatenate(drawn)
        facts = np.concatenate([self.facts[kept], self.drawn.triples[rows]])
        order = np.argsort(facts[:, 1], kind="stable")
        return replace(
            self,
            facts=facts[order],
            of_facts=np.concatenate([self.of_facts[kept], self.log_odds[rows]])[order],
            facts_in_top=np.concatenate([self.facts_in_top[kept], self.drawn.in_top[rows]])[order],
        )

    def top(self) -> "Survey":
        """Return the candidates of the top, and the facts that are as promising; all if these facts are too few."""
        rows, facts = self.drawn.in_top, self.facts_in_top
        if facts.sum() < FEWEST_FACTS:
            return self
        drawn = replace(self.drawn, triples=self.drawn.triples[rows], weights=self.drawn.weights[rows])
        return replace(
            self,
            drawn=replace(drawn, in_top=rows[rows]),
            log_odds=self.log_odds[rows],
            twin_shares=self.twin_shares[rows],
            facts=self.facts[facts],
            of_facts=self.of_facts[facts],
            facts_in_top=facts[facts],
        )

    def lowered(self, step: float) -> "Survey":
        """Return the survey with log-odds that are less by `step` for all triples that are not in the top."""
        folded = replace(self.folded, step=self.folded.step + step)
        return replace(
            self,
            log_odds=self.log_odds - step * ~self.drawn.in_top,
            of_facts=self.of_facts - step * ~self.facts_in_top,
            combined=replace(self.combined, combiner=folded),
        )

    def write(self, folder: Path) -> None:
        """Write the candidates (s, p, o, weight, in_top, log_odds, twin_share), and the validation facts."""
        drawn = self.drawn
        columns = {"weight": drawn.weights, "in_top": drawn.in_top, "log_odds": self.log_odds}
        columns["twin_share"] = self.twin_shares
        limits = {
            name: [[predicate, limit if math.isfinite(limit) else None] for predicate, limit in own.items()]
            for name, own in zip(LIMITS, (drawn.lowest, drawn.rules), strict=True)
        }
        write_table(folder / ROWS, spo_columns(drawn.triples) | columns, limits)
        facts = {"in_top": self.facts_in_top, "log_odds": self.of_facts}
        write_table(folder / FACTS, spo_columns(self.facts) | facts)
        write_json(folder / COMBINED, self.combined.to_json())

    @classmethod
    def read(cls, folder: Path) -> "Survey":
        """Read the output of `write`."""
        rows, metadata = read_table(folder / ROWS)
        facts, _ = read_table(folder / FACTS)
        limits = [{p: none if limit is None else limit for p, limit in metadata[name]} for name, none in LIMITS.items()]
        drawn = DrawnCandidates(triples_of(rows), rows["weight"], rows["in_top"], *limits)
        combined = Combined.from_json(read_json(folder / COMBINED))
        columns = rows["log_odds"], triples_of(facts), facts["log_odds"], facts["in_top"]
        return cls(drawn, *columns, combined, rows["twin_share"])

    @property
    def folded(self) -> Folded:
        """The combiners of the folds."""
        assert isinstance(self.combined.combiner, Folded)
        return self.combined.combiner


def groups_of(models: "Sequence[TrainedModel]") -> tuple[str, ...]:
    """Return the groups of evidence of a survey with these models: the default ones, and the further models' scores."""
    return (*EvidenceConfig().evidence, *([OTHER_SCORES] if len(models) > 1 else []))


def survey(
    population: Population,
    models: "Sequence[TrainedModel]",
    size: DrawSize,
    rng: np.random.Generator,
    on_part: OnPart = lambda done: None,
    each_part: EachPart = one_by_one,
    groups: Sequence[str] = (),
) -> Survey:
    """Draw candidates, and weigh the evidence about them.

    models     the model whose scores draw the candidates, then further models, whose scores are evidence
    on_part    function that is called with the share of the work that is done, from 0 to 1
    each_part  searches the parts of the candidates
    groups     registered names of the groups of evidence; (): those of `groups_of`

    Raises InputError if the population has fewer than FEWEST_FACTS validation facts.
    """
    source, groups = Source(population.graph, models[0], tuple(models[1:])), groups or groups_of(models)
    others = [other.fingerprint() for other in models[1:]]
    facts = population.positives
    if len(facts) < FEWEST_FACTS:
        raise InputError(
            f"validation has {len(facts):,} facts of the kind that is asked for: probabilities need at least "
            f"{FEWEST_FACTS}"
        )
    features = Features.of(source, (*groups, HELD_OUT_FACTS, FOLD))
    rules = features.groups.get("rules")
    assert rules is None or isinstance(rules, Rules)
    drawn = draw(population, source.trained, size, rng, lambda done: on_part(0.3 * done), each_part, rules)
    evidence, of_facts = features.evidence(drawn.triples), features.evidence(facts)
    twin_shares = _twin_shares(population.graph, drawn.triples)
    stand_ins = _stand_ins(drawn, twin_shares, facts, rng)
    true = np.concatenate([facts, drawn.triples[stand_ins]])
    of_true = Evidence(evidence.names, np.concatenate([of_facts.values, evidence.values[stand_ins]]))
    on_part(0.5)
    folded = _cross_fit(evidence, of_true, drawn, true, rng, lambda done: on_part(0.5 + 0.4 * done))
    in_top = ~folded.is_low(of_facts.values, facts[:, 1])
    model = source.trained.fingerprint()
    combined = Combined(COMBINER, tuple(features.groups), features.names, model, folded, "folded", tuple(others))
    log_odds, z = (combined.scores(*rows) for rows in ((evidence, drawn.triples[:, 1]), (of_facts, facts[:, 1])))
    on_part(1.0)
    return Survey(drawn, log_odds, facts, z, in_top, combined, twin_shares)


def _twin_shares(graph: KnowledgeGraph, candidates: Triples) -> Floats:
    """Return `Survey.twin_shares` of candidates (n, 3)."""
    if not graph.twins_together:
        return np.zeros(len(candidates))
    twins = Twins.of(graph)
    return twins.shares[candidates[:, 1]] * twins.has_twin(candidates)


def _stand_ins(drawn: DrawnCandidates, twin_shares: Floats, facts: Triples, rng: np.random.Generator) -> Ints:
    """Return rows of candidates with a twin: of each predicate, at most share x facts (m, 3)."""
    rows = [np.zeros(0, dtype=np.int64)]
    for predicate in np.intersect1d(drawn.triples[twin_shares > 0, 1], facts[:, 1]).tolist():
        with_twin = _rows_with_twin(drawn, twin_shares, predicate)
        wanted = round(float(twin_shares[with_twin[0]]) * int((facts[:, 1] == predicate).sum()))
        rows.append(_some(drawn, with_twin, min(wanted, len(with_twin)), rng))
    return np.concatenate(rows)


def _rows_with_twin(drawn: DrawnCandidates, twin_shares: Floats, predicate: int) -> Ints:
    return np.flatnonzero((twin_shares > 0) & (drawn.triples[:, 1] == predicate))


def _some(drawn: DrawnCandidates, rows: Ints, count: int, rng: np.random.Generator) -> Ints:
    """Return `count` random ones of some rows of candidates, by their weights."""
    weights = drawn.weights[rows]
    again = count > len(rows) or bool(np.ptp(weights))  # without replacement, large weights would count too little
    return rng.choice(rows, count, replace=again, p=weights / weights.sum())


def _cross_fit(
    evidence: Evidence,
    of_facts: Evidence,
    drawn: DrawnCandidates,
    facts: Triples,
    rng: np.random.Generator,
    on_part: OnPart,
) -> Folded:
    """Fit one combiner for each fold, which is the last feature, to the facts and candidates of the other folds.

    The top has at least SHARE_OF_TOP of the candidates' weight: a list is chosen there, and by their numbers alone the
    combiners would learn to tell facts from candidates that nobody doubts. `Folded` corrects the log-odds for it.
    """
    folds, folds_of_facts = fold_of(drawn.triples), fold_of(facts)
    top, rest = (float(drawn.weights[rows].sum()) for rows in (drawn.in_top, ~drawn.in_top))
    share = max(SHARE_OF_TOP, top / (top + rest))
    step = math.log(rest * share / (top * (1 - share))) if rest else 0.0
    members: list[BoostedTrees] = []
    for fold in range(FOLDS):
        kept, weights = _sample(drawn, np.flatnonzero(folds != fold), share, len(facts), rng)
        true = np.flatnonzero(folds_of_facts != fold)
        n = len(true)
        total = np.r_[np.full(n, 1 / n), weights]
        sample = EvidenceSample(
            evidence.names[:-1],
            np.concatenate([of_facts.values[true, :-1], evidence.values[kept, :-1]]),
            np.r_[np.ones(n), np.zeros(len(kept))],
            total / total.mean(),
            np.r_[facts[true, 1], drawn.triples[kept, 1]],
        )
        member = members[0].tuned() if members else BoostedTrees()
        members.append(member.fit(sample, rng))
        on_part((fold + 1) / FOLDS)
    scores, confidences = (
        {predicate: limit for predicate, limit in own.items() if math.isfinite(limit)}
        for own in (drawn.lowest, drawn.rules)
    )
    rule = evidence.names.index("rule_best") if confidences else -1
    return Folded(COMBINER, tuple(members), scores, confidences, step, evidence.names.index("score"), rule)


def _sample(
    drawn: DrawnCandidates, rows: Ints, share: float, facts: int, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Choose drawn candidates at random, half of them from the top, whose weights sum to `share`; and their weights."""
    most = int(np.clip(CANDIDATES_A_FACT * facts, *SAMPLE))
    top, rest = rows[drawn.in_top[rows]], rows[~drawn.in_top[rows]]
    of_top = most if not len(rest) else most // 2
    chosen = [
        chosen_rows if len(chosen_rows) <= count else rng.choice(chosen_rows, count, replace=False)
        for chosen_rows, count in ((top, of_top), (rest, most - of_top))
    ]
    weights = [
        drawn.weights[chosen_rows] * (total / max(drawn.weights[chosen_rows].sum(), 1e-300))
        for chosen_rows, total in zip(chosen, (share, 1 - share), strict=True)
    ]
    return np.concatenate(chosen), np.concatenate(weights)
