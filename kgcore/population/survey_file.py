"""The survey of a population, as a folder: its rows as a table, and its combiners as JSON."""

from pathlib import Path

import numpy as np

from kgcore.combiners.combined import Combined
from kgcore.population.draw import DrawnCandidates
from kgcore.population.survey import Survey
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table

ROWS, FACTS, COMBINED = "candidates.parquet", "facts.parquet", "combined.json"


def write_survey(folder: Path, survey: Survey) -> None:
    """Write the drawn candidates with the columns s, p, o, weight, in_top and log_odds, and the validation facts."""
    drawn = survey.drawn
    columns = {"weight": drawn.weights, "in_top": drawn.in_top, "log_odds": survey.log_odds}
    lowest = [[predicate, score if np.isfinite(score) else None] for predicate, score in drawn.lowest.items()]
    write_table(folder / ROWS, spo_columns(drawn.triples) | columns, {"lowest": lowest})
    facts = {"in_top": survey.facts_in_top, "log_odds": survey.of_facts}
    write_table(folder / FACTS, spo_columns(survey.facts) | facts)
    write_json(folder / COMBINED, survey.combined.to_json())


def read_survey(folder: Path) -> Survey:
    """Read the output of `write_survey`."""
    rows, metadata = read_table(folder / ROWS)
    facts, _ = read_table(folder / FACTS)
    lowest = {predicate: -np.inf if score is None else score for predicate, score in metadata["lowest"]}
    drawn = DrawnCandidates(triples_of(rows), rows["weight"], rows["in_top"], lowest)
    combined = Combined.from_json(read_json(folder / COMBINED))
    return Survey(drawn, rows["log_odds"], triples_of(facts), facts["log_odds"], facts["in_top"], combined)
