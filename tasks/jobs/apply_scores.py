"""Gives the rows of a file of scores their probabilities, block by block."""

from pathlib import Path

import numpy as np

from kgcore.config import ScoresConfig
from kgcore.errors import InputError
from kgcore.external.answers import ScoreAnswers
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.tables import check_table, read_table
from kgcore.prediction.sink import check_ending, sink
from tasks.jobs.request import MOST_EXAMPLES
from tasks.jobs.scores_result import AppliedScores
from tasks.workspace.progress import progress_bar


def check_places(source: str, output: str) -> None:
    """Raise InputError if a file of scores cannot be read, or its answers cannot be written."""
    if source and not output:
        raise InputError(f"--apply {source} needs --output FILE: the file for the probabilities")
    if output and not source:
        raise InputError(f"--output {output} needs --apply FILE: the rows that get probabilities")
    if source:
        check_table(Path(source))
        check_ending(Path(output))
        if Path(source).resolve() == Path(output).resolve():
            raise InputError(f"--apply and --output both are {source}: write the answers to another file")


def apply_scores(source: Path, output: Path, calibrator: ScoreCalibrator, config: ScoresConfig) -> AppliedScores:
    """Write the rows of a file with the columns probability, low and high added.

    source  a file with a header and the column `config.score`; other columns are kept

    Raises InputError for wrong values, with file and line. Then no output file is left behind.
    """
    answers = ScoreAnswers(calibrator, config.score, config.relation)
    rows, expected, examples = 0, 0.0, list[dict[str, object]]()
    with progress_bar("apply", 100) as move, sink(output) as write:
        for block in read_table(source, answers.columns()):
            table = answers.table(source, block)
            write(table)
            rows += len(table)
            expected += float(np.sum(table["probability"].to_numpy()))
            if len(examples) < MOST_EXAMPLES:
                examples += table.slice(0, MOST_EXAMPLES - len(examples)).to_pylist()
            move(int(100 * block.done), f"{rows:,} rows")
        if not rows:
            raise InputError(f"{source} has no rows after its header: it must have a row for each score")
    return AppliedScores(rows=rows, expected=expected, output=str(output), examples=examples)
