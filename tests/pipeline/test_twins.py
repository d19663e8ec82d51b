"""A graph in one file, in which some facts lack their mirror image: these are the first missing facts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.pipeline.command import Kgcal

PEOPLE, GROUPS = 600, 30
RUN = ("--model", "distmult", "--k", "16", "--epochs", "10", "--base-rate", "0.5", "--valid-share", "0.25")


def write_graph(path: Path) -> set[tuple[str, str, str]]:
    """Write who knows whom in groups of people. Return the facts that the file lacks: their mirror images are there."""
    rng = np.random.default_rng(0)
    group = rng.integers(GROUPS, size=PEOPLE)
    pairs = [(a, b) for a in range(PEOPLE) for b in range(a) if group[a] == group[b] and rng.random() < 0.5]
    facts = [(f"p{s}", "knows", f"p{o}") for a, b in pairs for s, o in ((a, b), (b, a))]
    lacking = {facts[number] for number in rng.choice(len(facts), len(facts) // 15, replace=False)}
    lacking = {(s, p, o) for s, p, o in lacking if (o, p, s) not in lacking}
    facts += [(f"p{person}", "in", f"g{number}") for person, number in enumerate(group.tolist())]
    path.write_text("".join("\t".join(fact) + "\n" for fact in facts if fact not in lacking))
    return lacking


@pytest.mark.long  # half a minute, with the trees of a user
def test_the_missing_mirror_images_of_symmetric_facts_are_the_first_missing_facts(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    path = kgcal.home.parent / "people.tsv"
    lacking = write_graph(path)
    done = kgcal("run", "--dataset", str(path), *RUN)
    assert done.returncode == 0, done.stderr
    target = path.with_name("facts.csv")
    done = kgcal("discover", "--dataset", "people", "--completeness", "0.93", "--top", "60", "-o", str(target))
    assert done.returncode == 0, done.stderr
    listed = pd.read_csv(target)
    found = [tuple(row) in lacking for row in listed[["subject", "predicate", "object"]].to_numpy().tolist()]
    assert sum(found) >= 50
    assert listed["probability"].sum() == pytest.approx(sum(found), abs=10)
    [twins] = kgcal.home.glob("artifacts/**/twins.parquet")
    table = pd.read_parquet(twins)
    assert list(table.columns) == ["s", "p", "o", "chance"]
    assert table["chance"].between(0.8, 1).all()
    [evidence] = kgcal.home.glob("artifacts/**/twin_evidence.parquet")
    assert len(pd.read_parquet(evidence)) == len(table)
