"""What a user asks `calibrate-scores` to do."""

from dataclasses import dataclass
from pathlib import Path

from kgcore.errors import InputError
from kgcore.external.tables import check_table
from tasks.jobs.apply_scores import check_places


@dataclass(frozen=True)
class ScoresRequest:
    """What to do with which files.

    file        file of labelled scores; '': none, a stored calibrator answers
    apply       file of scores without labels; '': none
    output      file for their probabilities
    model       stored calibrator to use, if no labelled scores are given: see `find_score_model`
    watch       whether a stored calibrator is checked on the labelled scores, and none is fitted
    recalibrate whether calibrators are fitted again if the check finds drift
    promote     whether the calibrator is registered, and made the champion of its scorer if it passes the gate
    calibrator  label of the calibrator to use; '': the one with the best Brier score
    """

    file: str = ""
    apply: str = ""
    output: str = ""
    model: str = ""
    calibrator: str = ""
    promote: bool = False
    watch: bool = False
    recalibrate: bool = False

    def check(self) -> None:
        """Raise InputError for files that cannot be used, and for options that do not fit together."""
        check_places(self.apply, self.output)
        if self.watch and (not self.file or self.apply or self.promote):
            raise InputError("--watch needs a file of newly labelled scores, and neither --apply nor --promote")
        if self.recalibrate and not self.watch:
            raise InputError("--recalibrate needs --watch: calibrators are fitted again if the check finds drift")
        if self.file and self.model and not self.watch:
            raise InputError(f"{self.file} and --model {self.model} are given: give one of them")
        if self.file:
            check_table(Path(self.file))
        elif self.promote:
            raise InputError("--promote needs a file of labelled scores: a calibrator is promoted when it is fitted")
        elif not (self.model and self.apply):
            raise InputError("give a file of labelled scores, or --model with --apply: there is nothing to do")
