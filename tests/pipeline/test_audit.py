"""`kgcal audit`: folds that are cached runs, the list of facts, the facts to label and their labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kgcore.data.datasets.family import write_genealogy
from kgcore.storage.folders import read_graph, read_model
from tests.conftest import TINY_TRAINING
from tests.pipeline.command import Kgcal, all_runs, client_of, model_folder, models_of, runs_of, tags_of

NAMES = ["subject", "predicate", "object"]
FOLDS = 3
STAGES = ("prepare", "train")


@dataclass(frozen=True)
class Audited:
    """A home with a finished audit of a small graph with labelled negatives.

    facts  the list that it wrote
    """

    kgcal: Kgcal
    facts: pd.DataFrame

    def audit(self, *options: str) -> str:
        """Audit with the same settings, and return what is printed."""
        done = self.kgcal("audit", "--size", "300", *TINY_TRAINING, "--folds", str(FOLDS), *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listed(self, *options: str) -> pd.DataFrame:
        target = self.kgcal.home.parent / "again.parquet"
        self.audit("-o", str(target), *options)
        return pd.read_parquet(target)

    def to_label(self, number: int) -> pd.DataFrame:
        target = self.kgcal.home.parent / "to_label.tsv"
        assert f"{number} facts to label" in self.audit("--sample", str(number), "-o", str(target))
        return pd.read_csv(target, sep="\t", dtype=str, keep_default_na=False)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    kgcal = Kgcal(tmp_path_factory.mktemp("audit"))
    target = kgcal.home.parent / "facts.parquet"
    kgcal.home.parent.mkdir(exist_ok=True)
    done = kgcal("audit", "--size", "300", *TINY_TRAINING, "--folds", str(FOLDS), "-o", str(target))
    assert done.returncode == 0, done.stderr
    return Audited(kgcal, pd.read_parquet(target))


def test_every_training_fact_is_listed_once_from_the_least_probable(audited: Audited) -> None:
    facts = audited.facts
    [whole] = [run for run in runs_of(audited.kgcal, "prepare") if tags_of(run).dataset == "family"]
    graph = read_graph(Path(client_of(audited.kgcal).download_artifacts(whole.info.run_id, "graph")))
    triples, known = graph.number(facts[NAMES])
    assert known.all()
    np.testing.assert_array_equal(triples[np.lexsort(triples.T[::-1])], graph.train.triples)
    q = facts["probability"]
    assert q.is_monotonic_increasing
    assert q.between(facts["low"], facts["high"]).all()
    np.testing.assert_allclose(facts["expected_wrong"], (1 - q).cumsum())


def test_a_fact_is_scored_by_a_model_that_has_not_seen_it(audited: Audited) -> None:
    scores = []
    for run in runs_of(audited.kgcal, "train"):
        client, prepared = client_of(audited.kgcal), tags_of(run).inputs["prepare"]
        number = int(str(tags_of(client.get_run(prepared)).dataset).removeprefix("family-fold-").split("-")[0])
        graph = read_graph(Path(client.download_artifacts(prepared, "graph")))
        unseen = audited.facts["fold"] == number
        triples = graph.number(audited.facts[NAMES])[0]
        assert (graph.index(graph.train.triples).contains(triples) == ~unseen).all()
        [model] = models_of(audited.kgcal, run.info.run_id)
        score = read_model(model_folder(audited.kgcal, model.model_id)).score(triples)
        np.testing.assert_array_equal(audited.facts["unseen_score"][unseen], score[unseen])
        scores.append(np.where(unseen, np.nan, score))
    assert len(scores) == FOLDS
    np.testing.assert_allclose(audited.facts["seen_score"], np.nanmean(scores, axis=0))


def test_the_folds_are_runs_that_are_used_again(audited: Audited) -> None:
    before = len(all_runs(audited.kgcal))
    pd.testing.assert_frame_equal(audited.listed(), audited.facts)
    assert len(all_runs(audited.kgcal)) == before + 1  # the audit's own run
    assert {stage: len(runs_of(audited.kgcal, stage)) for stage in STAGES} == dict.fromkeys(STAGES, FOLDS) | {
        "prepare": FOLDS + 1
    }


def test_a_lost_fold_is_computed_again(audited: Audited) -> None:
    lost = runs_of(audited.kgcal, "train")[1]
    client_of(audited.kgcal).delete_run(lost.info.run_id)
    pd.testing.assert_frame_equal(audited.listed(), audited.facts)
    assert len(runs_of(audited.kgcal, "train")) == FOLDS
    assert len(runs_of(audited.kgcal, "prepare")) == FOLDS + 1


def test_the_models_of_folds_answer_no_question_about_the_whole_graph(audited: Audited) -> None:
    done = audited.kgcal("predict", "a", "b", "c", "--dataset", "family")
    assert done.returncode == 2
    assert "family has neither a champion nor a finished run" in done.stderr


@pytest.mark.long
def test_labels_give_the_share_of_wrong_facts(audited: Audited, tmp_path: Path) -> None:
    frame = audited.to_label(120)
    assert len(frame) == 120
    assert (frame["label"] == "").all()
    assert not {"probability", "score"} & {*frame.columns}
    rank = audited.facts.reset_index().merge(frame, on=NAMES).set_index("stratum")["index"]
    assert rank["3"].mean() < rank["2"].mean() < rank["1"].mean()  # the last stratum has the least probable facts
    wrong = np.arange(len(frame)) % 12 == 0
    frame.assign(label=np.where(wrong, "-1", "1")).to_csv(tmp_path / "labelled.tsv", sep="\t", index=False)
    before = len(all_runs(audited.kgcal))
    printed = audited.audit("--labels", str(tmp_path / "labelled.tsv"))
    assert "By 120 labels, " in printed
    assert len(all_runs(audited.kgcal)) == before + 1  # nothing is trained or scored
    metrics = runs_of(audited.kgcal, "audit")[-1].data.metrics
    sizes = frame.groupby("stratum")["stratum_facts"].first().astype(int)
    shares = pd.Series(wrong).groupby(frame["stratum"]).mean()
    assert metrics["error_rate"] == pytest.approx((sizes * shares).sum() / sizes.sum())
    assert metrics["error_rate.low"] < metrics["error_rate"] < metrics["error_rate.high"]
    listed = audited.listed("--labels", str(tmp_path / "labelled.tsv"))
    stated = audited.listed("--error-rate", str(metrics["error_rate"]))
    pd.testing.assert_frame_equal(listed, stated)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sample", "50"), "sample needs --output FILE: the file for the facts to label"),
        (("--sample", "50", "--labels", "LABELS", "-o", "x.tsv"), "give one of them"),
        (("--labels", "LABELS", "--error-rate", "0.1"), "give one of them"),
        (("--labels", "LABELS"), "LABELS cannot be read: No such file or directory"),
        (("--error-rate", "1"), "error_rate is 1: it must be above 0 and below 1"),
        (("-o", "x.json"), "x.json is of an unknown kind: its name must end in .parquet, .csv, .tsv"),
        (("--folds", "1"), "folds is 1: it must be at least 2"),
        (("--planted", "0"), "planted is 0"),
        (("--planted-strategy", "nearest"), "this strategy draws with a trained model"),
        (("--sample", "12", "-o", "x.tsv"), "sample is 12: it must be at least"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(audited: Audited, options: tuple[str, ...], message: str) -> None:
    words = [str(audited.kgcal.home.parent / "LABELS.tsv") if word == "LABELS" else word for word in options]
    done = audited.kgcal("audit", "--size", "300", *TINY_TRAINING, "--folds", str(FOLDS), *words)
    assert done.returncode == 2
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert message.replace("LABELS", "LABELS.tsv") in sentence
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_wrong_facts_come_first(tmp_path: Path) -> None:
    """Facts with the subject of another fact are wrong, and a third of the first ones that are listed."""
    folder = tmp_path / "graph"
    folder.mkdir()
    write_genealogy(folder, 300, 0)
    rows = [line.split("\t") for line in (folder / "train.txt").read_text().splitlines()]
    made = [[rows[i + 1][0], rows[i][1], rows[i][2]] for i in range(0, len(rows) - 1, 25)]
    wrong = [row for row in made if row not in rows and row[0] != row[2]]
    (folder / "train.txt").write_text("".join("\t".join(row) + "\n" for row in [*rows, *wrong]))
    kgcal = Kgcal(tmp_path / "run")
    out = tmp_path / "facts.csv"
    done = kgcal("audit", "--dataset", str(folder), "--size", "300", *TINY_TRAINING, "--epochs", "60", "-o", str(out))
    assert done.returncode == 0, done.stderr
    listed = pd.read_csv(out)[NAMES].to_numpy().tolist()
    found = sum(row in wrong for row in listed[: len(wrong)])
    assert found / len(wrong) > 5 * len(wrong) / len(listed)
