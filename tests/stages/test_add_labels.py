"""New labels in the validation split: the exam's half is counted, said and left out."""

import logging
from pathlib import Path

import pandas as pd
import pytest

from kgcore.config import PrepareConfig
from kgcore.data.datasets.labels import for_exam
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from tasks.stages.prepare import PREPARE, add_labels
from tasks.tracking.artifacts import COUNTS, GRAPH
from tasks.tracking.store import open_store


def new_labels(graph: KnowledgeGraph, count: int) -> pd.DataFrame:
    """Return triples of the graph's names that it does not have, half of them labelled true."""
    names = graph.names_of(graph.train.triples[: 3 * count])
    names["object"] = names["object"].to_numpy()[::-1]
    triples, _ = graph.number(names)
    fresh = names[~graph.all_known.contains(triples)].drop_duplicates().head(count)
    return fresh.assign(label=[1 if row % 2 else -1 for row in range(len(fresh))])


def test_the_exams_half_is_said_and_all_for_the_exam_is_an_error(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, store = PREPARE(config=PrepareConfig(size=300)), open_store()
    labels, file = new_labels(store.load(data.run_id, GRAPH), 40), home / "new.tsv"
    labels.to_csv(file, sep="\t", header=False, index=False)
    exam = for_exam(labels, 0.5)
    with caplog.at_level(logging.INFO, logger="kgcal"):
        made = add_labels(data, file, exam_share=0.5)
    said = f"{exam.sum()} of the 40 new labels belong to the exam of `kgcal promote`."
    assert said in caplog.text
    counts = store.load(made.run_id, COUNTS)
    assert (counts["labels_for_exam"], counts["labels_rows"]) == (exam.sum(), 40 - exam.sum())
    whole = add_labels(data, file, exam_share=0.0)
    assert "labels_for_exam" not in store.load(whole.run_id, COUNTS)
    labels[exam].head(3).to_csv(file, sep="\t", header=False, index=False)
    with pytest.raises(InputError, match=r"all 3 labelled triples belong to the exam, none to calibration: label more"):
        add_labels(data, file, exam_share=0.5)
