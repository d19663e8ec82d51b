"""Error messages about names that `train` does not know."""

import pandas as pd

from kgcore.data.datasets.prepare import MOST_EXAMPLES, describe_unknown_names, examples_of_unknown_names


def test_an_example_has_the_line_and_each_unknown_name_once() -> None:
    rows = [("x", "likes", "x"), ("ann", "hates", "y"), ("ann", "likes", "z")]
    frame = pd.DataFrame(rows, columns=["subject", "predicate", "object"], index=[4, 7, 9])
    assert examples_of_unknown_names(frame, ["ann"], ["likes"]) == (
        "line 4: unknown entity 'x'",
        "line 7: unknown predicate 'hates' and unknown entity 'y'",
        "line 9: unknown entity 'z'",
    )


def test_a_long_list_is_cut() -> None:
    frame = pd.DataFrame([("x", "p", "y")] * 5, columns=["subject", "predicate", "object"])
    examples = examples_of_unknown_names(frame, ["y"], ["p"])
    assert len(examples) == MOST_EXAMPLES
    assert describe_unknown_names(5, examples).endswith("line 2: unknown entity 'x'; ...)")
    assert describe_unknown_names(3, examples).endswith("line 2: unknown entity 'x')")


def test_without_examples_there_is_the_count_alone() -> None:
    assert describe_unknown_names(0, ()) == "0 with a name that is not in train"
