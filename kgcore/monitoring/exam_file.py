"""The file of an exam: a parquet table of its questions."""

from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.datasets.formats.base import COLUMNS
from kgcore.monitoring.exam import WEIGHT, Exam
from kgcore.storage.tables import read_table, write_table


def write_exam(path: Path, exam: Exam) -> None:
    """Write the columns subject, predicate, object, label, cluster and era, and weight if the exam has weights.

    The metadata has the other fields.
    """
    names = (*COLUMNS, "label", "cluster", "era", *([WEIGHT] if WEIGHT in exam.questions else []))
    columns = {name: exam.questions[name].to_numpy() for name in names}
    metadata = {"dataset": exam.dataset, "version": exam.version, "test": exam.test}
    write_table(path, columns, metadata | {"synthetic": exam.synthetic, "era": exam.era})


def read_exam(path: Path) -> Exam:
    """Read the output of `write_exam`."""
    columns, metadata = read_table(path)
    questions = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    return Exam(**metadata, questions=questions)
