"""Imported models: the scores of tables by each library's own formula, and a sentence for each input that is wrong."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.wings.imports.embeddings import Foreign, Table, check_widths, import_model
from kgcore.wings.imports.files import Numbers, load_apart, read_names, read_table
from kgcore.wings.imports.libraries import read_pykeen

ENTITIES, PREDICATES = ("a", "b", "c", "d"), ("likes", "owns")
FILE_ORDER, FILE_PREDICATES = ("d", "unused", "b", "a", "c"), ("owns", "likes", "hates")
RNG = np.random.default_rng(7)
K = 6
TRIPLES = np.array([[s, p, o] for s in range(4) for p in range(2) for o in range(4)])


def graph() -> KnowledgeGraph:
    split = Split(TRIPLES, np.ones(len(TRIPLES)))
    return KnowledgeGraph("toy", ENTITIES, PREDICATES, split, split, split)


def foreign(model: str, entities: Numbers, relations: Numbers, layout: str = "halves", **options: float) -> Foreign:
    tables = Table(entities, FILE_ORDER, "e.npy"), Table(relations, FILE_PREDICATES, "r.npy")
    return Foreign(model, options, layout, *tables)


def complex_table(rows: int) -> Numbers:
    return RNG.normal(size=(rows, K)) + 1j * RNG.normal(size=(rows, K))


def circular_correlation(a: Numbers, b: Numbers) -> Numbers:
    return np.array([sum(a[i] * b[(i + j) % K] for i in range(K)) for j in range(K)])


REAL_E, REAL_R = RNG.normal(size=(5, K)), RNG.normal(size=(3, K))
COMPLEX_E, COMPLEX_R = complex_table(5), complex_table(3)
PHASES = RNG.uniform(-9, 9, size=(3, K))
ROTATIONS = np.exp(1j * PHASES)
# the formulas of the libraries, for a head, a relation and a tail
FORMULAS = {
    "transe, norm 1": (foreign("transe", REAL_E, REAL_R), lambda h, r, t: -np.abs(h + r - t).sum()),
    "transe, norm 2": (foreign("transe", REAL_E, REAL_R, norm=2), lambda h, r, t: -np.linalg.norm(h + r - t)),
    "distmult": (foreign("distmult", REAL_E, REAL_R), lambda h, r, t: (h * r * t).sum()),
    "hole": (foreign("hole", REAL_E, REAL_R), lambda h, r, t: r @ circular_correlation(h, t)),
    "complex": (foreign("complex", COMPLEX_E, COMPLEX_R), lambda h, r, t: (h * r * t.conj()).sum().real),
    "rotate": (foreign("rotate", COMPLEX_E, ROTATIONS), lambda h, r, t: -np.abs(h * r - t).sum()),
    "rotate of PyKEEN": (
        foreign("rotate", COMPLEX_E, ROTATIONS, norm=2),
        lambda h, r, t: -np.sqrt((np.abs(h * r - t) ** 2).sum()),
    ),
}


def parts(table: Numbers, layout: str) -> Numbers:
    """Store a complex table in real columns."""
    if layout == "halves":
        return np.concatenate([table.real, table.imag], axis=1)
    return np.stack([table.real, table.imag], axis=-1).reshape(len(table), -1)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_score_is_that_of_the_library_for_the_rows_with_these_names(name: str) -> None:
    given, formula = FORMULAS[name]
    imported = import_model(given, graph())
    assert (imported.unused_entities, imported.unused_relations) == (1, 1)
    expected = [
        formula(
            given.entities.numbers[FILE_ORDER.index(ENTITIES[s])],
            given.relations.numbers[FILE_PREDICATES.index(PREDICATES[p])],
            given.entities.numbers[FILE_ORDER.index(ENTITIES[o])],
        )
        for s, p, o in TRIPLES
    ]
    np.testing.assert_allclose(imported.model.score(TRIPLES), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize(("model", "relations"), [("complex", COMPLEX_R), ("rotate", ROTATIONS)])
def test_complex_numbers_in_real_columns_give_the_same_scores(model: str, relations: Numbers, layout: str) -> None:
    stored = foreign(model, parts(COMPLEX_E, layout), parts(relations, layout), layout)
    scores = [
        import_model(made, graph()).model.score(TRIPLES) for made in (stored, foreign(model, COMPLEX_E, relations))
    ]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_the_phases_of_rotate_give_the_scores_of_its_rotations() -> None:
    both = (foreign("rotate", COMPLEX_E, table) for table in (PHASES, ROTATIONS))
    np.testing.assert_allclose(*(import_model(made, graph()).model.score(TRIPLES) for made in both), atol=1e-5)


def test_without_names_the_rows_are_in_the_order_of_the_graph() -> None:
    tables = Table(REAL_E[:4], None, "e.npy"), Table(REAL_R[:2], None, "r.npy")
    model = import_model(Foreign("distmult", {}, "halves", *tables), graph()).model
    torch.testing.assert_close(model.embeddings.entities.double(), torch.from_numpy(REAL_E[:4]), atol=1e-6, rtol=1e-6)
    with pytest.raises(InputError, match=r"e\.npy has 5 rows, but the graph has 4 entities.*try --entities FILE"):
        import_model(Foreign("distmult", {}, "halves", Table(REAL_E, None, "e.npy"), tables[1]), graph())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (foreign("transe", REAL_E, REAL_R[:, :4]), r"r\.npy has rows of 4 numbers, and e\.npy of 6.* size would be 6"),
        (foreign("transe", COMPLEX_E, REAL_R), r"e\.npy has complex numbers: those of transe must be real"),
        (foreign("complex", REAL_E[:, :5], REAL_R), r"e\.npy has rows of 5 real numbers: complex needs complex"),
        (foreign("complex", REAL_E, REAL_R[:, :4]), r"do not fit in complex, whose embedding size would be 3"),
        (foreign("rotate", REAL_E, REAL_R), r"r\.npy: a complex number has a modulus that differs from 1"),
        (foreign("distmult", REAL_E[1:], REAL_R), r"e\.npy has 4 rows, and there are 5 names for them"),
    ],
)
def test_tables_that_do_not_fit_are_refused(made: Foreign, words: str) -> None:
    with pytest.raises(InputError, match=words):
        import_model(made, graph())


def test_a_name_of_the_graph_without_a_row_is_refused() -> None:
    tables = Table(REAL_E, ("d", "x", "y", "a", "c"), "e.npy"), Table(REAL_R, FILE_PREDICATES, "r.npy")
    with pytest.raises(InputError, match=r"e\.npy has no row for 1 of 4 entities of the graph, such as 'b'"):
        import_model(Foreign("distmult", {}, "halves", *tables), graph())


@pytest.mark.parametrize(
    "text",
    [
        "b\na\nö c\n",
        "0\tb\n1\ta\n2\tö c\n",
        "a\t1\nö c\t2\nb\t0\n",
        "3\nb\t0\nö c\t2\na\t1\n",
        "id\tlabel\n2\tö c\n1\ta\n0\tb\n",
    ],
)
def test_every_layout_of_names_gives_the_rows_their_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.txt").write_text(text, encoding="utf-8")
    (tmp_path / "names.tsv.gz").write_bytes(gzip.compress(text.encode()))
    assert read_names(tmp_path / "names.txt") == ["b", "a", "ö c"] == read_names(tmp_path / "names.tsv.gz")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a\nb\na\n", "a is the name of rows 0 and 2"),
        ("a\n\nb\n", "the name of row 1 is empty"),
        ("0\ta\n2\tb\n", "neither column has the row numbers 0 to 1"),
        ("a\nb\tc\td\n", "line 2: each line must have a name, or a row number"),
    ],
)
def test_names_that_cannot_be_used_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "names.txt").write_text(text)
    with pytest.raises(InputError, match=words):
        read_names(tmp_path / "names.txt")


def test_tables_are_read_from_both_formats(tmp_path: Path) -> None:
    np.save(tmp_path / "e.npy", COMPLEX_E)
    save_file({"anything": torch.from_numpy(REAL_E)}, tmp_path / "e.safetensors")
    np.testing.assert_array_equal(read_table(tmp_path / "e.npy"), COMPLEX_E)
    np.testing.assert_allclose(read_table(tmp_path / "e.safetensors"), REAL_E, atol=1e-6)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.array([[1.0, np.nan], [0, 0]]), "row 0: a number is not finite"),
        (np.ones(3), r"an array of shape \(3,\): it must be \(rows, width\)"),
        (np.ones((2, 2), dtype=np.int64), "numbers of type int64: they must be real"),
        (np.array([[{}]], dtype=object), "cannot be read as an array of numbers"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path: Path, table: Numbers, words: str) -> None:
    np.save(tmp_path / "e.npy", table)
    with pytest.raises(InputError, match=words):
        read_table(tmp_path / "e.npy")


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    for name, words in (
        ("e.npy", "NumPy"),
        ("e.safetensors", "cannot be read as safetensors"),
        ("e.pt", "is not .npy"),
    ):
        (tmp_path / name).write_text("text")
        with pytest.raises(InputError, match=words):
            read_table(tmp_path / name)
    save_file({"a": torch.ones(1, 1), "b": torch.ones(1, 1)}, tmp_path / "two.safetensors")
    with pytest.raises(InputError, match="has 2 tensors, a, b: it must have one"):
        read_table(tmp_path / "two.safetensors")
    with pytest.raises(InputError, match="does not exist"):
        read_table(tmp_path / "missing.npy")


def test_widths_give_the_embedding_size() -> None:
    assert [check_widths(given) for given, _ in FORMULAS.values()] == [K] * len(FORMULAS)


def test_a_pickle_is_not_loaded_without_trust(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no trained_model\.pkl"):
        read_pykeen(tmp_path, "python", trust=True)
    (tmp_path / "trained_model.pkl").write_bytes(b"anything")
    with pytest.raises(InputError, match=r"is a pickle: to load it runs the code .* add --trust"):
        read_pykeen(tmp_path, "python", trust=False)


def test_the_interpreter_may_be_a_path_from_the_folder_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="This Python must have a library"):  # it was started, and failed
        load_apart("pykeen", tmp_path / "model.pkl", "bin/python", "a library")
