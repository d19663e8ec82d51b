"""Any words after the commands that do not train: an answer or one sentence, and no run is left running."""

from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.cli.main import whole_app
from tests.core.fuzzed import EXAMPLES, FUZZ
from tests.pipeline.all_commands import COMMANDS, prepared
from tests.pipeline.command import all_runs

ASKED = ("predict", "discover", "explain", "base-rate", "promote", "recalibrate", "score", "calibrate")
OTHERS = ("calibrate-scores", "prepare", "compare", "ensemble", "watch", "evaluate", "refresh")
NUMBERS = ("0", "1", "-1", "2", "0.5", "nan", "inf", "-inf", "1e308", "1e-320", "9" * 30, "1,2", "0.1:0.3", "true")
FILES = ("candidates.tsv", "scores.csv", "home", "home/mlflow.db", "missing/a.csv", "out.json", ".", "/dev/null")
NAMES = ("person_1", "cousin_of", "family", "isotonic", "auto", "latest", "models:/x@champion", "runs:/x", "f", "y")
ODD = ("", " ", "-", "--", "[/b]", "{}", "%s", "é🙂", "a\nb", "\u202e", "'", "None", "~", "x://y", "time:t")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
WORDS = st.sampled_from(NUMBERS) | st.sampled_from(FILES) | st.sampled_from(NAMES) | st.sampled_from(ODD) | TEXTS
LEFT_OUT = ("--help", "--per-positive")  # of a large number of corruptions, all are drawn


@pytest.mark.long
@pytest.mark.parametrize("command", [*ASKED, *OTHERS])
def test_any_words_are_answered_or_refused_in_one_sentence(command: str, tmp_path: Path) -> None:
    kgcal = prepared(command, tmp_path)
    known = typer.main.get_command(whole_app()).commands[command].params  # type: ignore[attr-defined]
    flags = [own for param in known for own in param.opts if own.startswith("--") and own not in LEFT_OUT]
    words = st.tuples(WORDS) | st.tuples(st.sampled_from(flags)) | st.tuples(st.sampled_from(flags), WORDS)

    @settings(FUZZ, max_examples=max(3, EXAMPLES // 10))  # a command takes a tenth of a second
    @given(st.lists(words, max_size=4), st.booleans())
    def asks(groups: list[tuple[str, ...]], usual: bool) -> None:
        further = [word for group in groups for word in group]
        done = kgcal(*(COMMANDS.get(command, (command,)) if usual else (command,)), *further)
        assert done.returncode in (0, 2), (further, done.stderr)
        assert "Traceback" not in done.stderr, (further, done.stderr)

    asks()
    assert {run.info.status for run in all_runs(kgcal)} <= {"FINISHED", "FAILED"}
