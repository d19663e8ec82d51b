"""The texts of answers in the terminal."""

import pytest

from tasks.jobs import discover
from tasks.jobs.request import probability_texts


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ((0.25, 0.1, 0.5), ("0.2500", "0.1000 to 0.5000")),
        ((5.6e-7, 4.7e-75, 3e-5), ("<0.0001", "<0.0001 to <0.0001")),
        ((0.99998, 0.9, 1 - 1e-12), (">0.9999", "0.9000 to >0.9999")),
        ((0.0, 0.0, 1.0), ("0.0000", "0.0000 to 1.0000")),
        ((0.00005001, 0.0, 0.99994), ("0.0001", "0.0000 to 0.9999")),
        ((None, None, None), ("", "")),
    ],
)
def test_only_certainty_is_written_as_0_or_1(
    row: tuple[float | None, float | None, float | None], texts: tuple[str, str]
) -> None:
    assert probability_texts(dict(zip(("probability", "low", "high"), row, strict=True))) == texts


def test_three_frequent_flyers_are_named_and_the_others_counted() -> None:
    flyers = [{"entity": f"e{n}", "part": "object", "answers": 9 - n, "expected": 0.5} for n in range(5)]
    [sentence] = discover._about_flyers(flyers)
    assert "e0 is the object of 9 answers, 0.5 expected; e1 is" in sentence
    assert sentence.endswith("; e2 is the object of 7 answers, 0.5 expected; and 2 more")
    assert discover._about_flyers([]) == []
