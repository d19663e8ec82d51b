"""Data sets of plain files, with negatives in separate files, as names (CoDEx) or as ids (YAGO39K)."""

import hashlib
import http.server
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kgcore.data.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.formats.base import TriplesFile
from kgcore.data.formats.numbered import read_numbered, read_vocabulary
from kgcore.errors import InputError
from kgcore.registries import DATASETS

NAMES = {
    "codex-s/train.txt": "a\tr\tb\nb\tr\tc\nc\tq\ta\n",
    "codex-s/valid.txt": "a\tr\tc\nb\tq\ta\n",
    "codex-s/valid_negatives.txt": "a\tq\tb\n",
    "codex-s/test.txt": "b\tq\tc\n",
    "codex-s/test_negatives.txt": "b\tr\ta\n",
}
# The same graph; in files of ids the object comes before the predicate.
IDS = {
    "YAGO39K/Train/instance2id.txt": "3\nc\t0\na\t1\nb\t2\n",
    "YAGO39K/Train/relation2id.txt": "2\nr\t0\nq\t1\n",
    "YAGO39K/Train/triple2id.txt": "3\n1 2 0\n2\t0\t0\n0  1 1\n",
    "YAGO39K/Valid/triple2id_positive.txt": "2\n1 0 0\n2 1 1\n",
    "YAGO39K/Valid/triple2id_negative.txt": "1\n1 2 1\n",
    "YAGO39K/Test/triple2id_positive.txt": "1\n2 0 1\n",
    "YAGO39K/Test/triple2id_negative.txt": "1\n2 1 0\n",
}
SMALL = {"codex-s": NAMES, "yago39k": IDS}
REAL = Path(os.environ.get("KGCAL_MIRROR", "")) / "yago39k-heldout-only.zip"


def small(name: str, texts: dict[str, str] | None = None) -> DatasetSpec:
    """Return the registered data set, with the checksums of the small graph's files and without counts."""
    spec, texts = DATASETS.get(name), texts or SMALL[name]
    md5 = {path: hashlib.md5(text.encode()).hexdigest() for path, text in texts.items()}
    files = {role: SplitFile(file.path, (md5[file.path],)) for role, file in spec.files.items() if file.path in md5}
    assert len(files) == len(spec.files)
    return replace(spec, files=files, counts=ExpectedCounts(), url="http://127.0.0.1:1/")


def write_plain(mirror: Path, texts: dict[str, str]) -> Path:
    for path, text in texts.items():
        (mirror / path).parent.mkdir(parents=True, exist_ok=True)
        (mirror / path).write_text(text)
    return mirror


def write_archive(mirror: Path, name: str, texts: dict[str, str]) -> Path:
    mirror.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(mirror / name, "w") as zipped:
        for path, text in texts.items():
            zipped.writestr(path, text)
    return mirror


def write_half(mirror: Path, name: str, texts: dict[str, str]) -> Path:
    """Write the training file as a plain file, and the other files as an archive."""
    train = {path: text for path, text in texts.items() if path.endswith(("train.txt", "Train/triple2id.txt"))}
    write_archive(mirror, name, {path: text for path, text in texts.items() if path not in train})
    return write_plain(mirror, train)


MIRRORS: list[Callable[[Path, str, dict[str, str]], Path]] = [
    lambda mirror, archive, texts: write_plain(mirror, texts),
    write_archive,
    write_half,
]


def graph_of(spec: DatasetSpec, root: Path, mirror: str) -> Prepared:
    return prepare(spec, fetch(spec, root, mirror))


def check(prepared: Prepared) -> None:
    graph = prepared.graph
    assert (graph.entities, graph.predicates, graph.labelled) == (["a", "b", "c"], ["q", "r"], True)
    assert graph.train.triples.tolist() == [[0, 1, 1], [1, 1, 2], [2, 0, 0]]
    assert graph.valid.positives.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert graph.valid.negatives.tolist() == [[0, 0, 1]]
    assert graph.test.positives.tolist() == [[1, 0, 2]]
    assert graph.test.negatives.tolist() == [[1, 1, 0]]
    assert (prepared.counts["valid_rows"], prepared.counts["test_negatives"]) == (3, 1)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve tmp_path/mirror, and return its URL."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "mirror"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # polls often: it ends soon
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("write", MIRRORS)
def test_a_mirror_folder_may_have_plain_files_an_archive_or_both(tmp_path: Path, write, name: str) -> None:
    spec = small(name)
    mirror = write(tmp_path / "mirror", spec.archives[0], SMALL[name])
    check(graph_of(spec, tmp_path / "root", str(mirror)))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("write", MIRRORS)
def test_a_mirror_url_may_have_plain_files_an_archive_or_both(tmp_path: Path, served: str, write, name: str) -> None:
    spec = small(name)
    write(tmp_path / "mirror", spec.archives[0], SMALL[name])
    check(graph_of(spec, tmp_path / "root", served))


def test_the_public_host_serves_plain_files_one_by_one(tmp_path: Path, served: str) -> None:
    spec = replace(small("codex-s"), url=served)
    write_plain(tmp_path / "mirror", NAMES)
    check(prepare(spec, fetch(spec, tmp_path / "root")))
    (tmp_path / "mirror/codex-s/valid.txt").unlink()
    write_archive(tmp_path / "mirror", "codex-s.zip", NAMES)  # a mirror may have archives, the public host has none
    with pytest.raises(InputError, match=r"codex-s/valid\.txt could not be downloaded from .*404"):
        fetch(spec, tmp_path / "other")


def test_only_changed_files_are_fetched_again(tmp_path: Path) -> None:
    spec, mirror = small("yago39k"), write_plain(tmp_path / "mirror", IDS)
    folder = fetch(spec, tmp_path / "root", str(mirror))
    assert fetch(spec, tmp_path / "root", "/no/such/mirror") == folder
    train = folder / "YAGO39K/Train/triple2id.txt"
    train.write_text("spoilt")
    check(graph_of(spec, tmp_path / "root", str(mirror)))
    assert train.read_text() == IDS["YAGO39K/Train/triple2id.txt"]


def refused(tmp_path: Path, message: str, name: str, mirror: Path | str, spec: DatasetSpec | None = None) -> None:
    """Check that the data set raises an error of one sentence, and that no temporary folder remains."""
    with pytest.raises(InputError, match=message) as caught:
        graph_of(spec or small(name), tmp_path / "root", str(mirror))
    assert "\n" not in str(caught.value)
    assert not [path for path in (tmp_path / "root").iterdir() if path.name.startswith(".")]


def test_the_file_that_a_mirror_lacks_is_named(tmp_path: Path, served: str) -> None:
    texts = {path: text for path, text in IDS.items() if path != "YAGO39K/Train/triple2id.txt"}
    mirror = write_plain(tmp_path / "mirror", texts)
    message = (
        r"the mirror .* has no YAGO39K/Train/triple2id\.txt, nor YAGO39K\.zip or yago39k-heldout-only\.zip, "
        r"which yago39k needs"
    )
    refused(tmp_path, message, "yago39k", mirror)
    refused(tmp_path, message, "yago39k", served)
    write_archive(mirror, "yago39k-heldout-only.zip", texts)
    message = r"yago39k-heldout-only\.zip has no YAGO39K/Train/triple2id\.txt"
    refused(tmp_path, message, "yago39k", mirror)
    refused(tmp_path, message, "yago39k", served)
    (tmp_path / "empty").mkdir()
    message = r"has no codex-s/train\.txt and 4 other files, nor codex-s\.zip, which codex-s needs"
    refused(tmp_path, message, "codex-s", tmp_path / "empty")
    assert not (tmp_path / "root" / "yago39k").exists()


@pytest.mark.parametrize("write", MIRRORS[:2])
def test_a_wrong_checksum_is_reported_with_its_source(tmp_path: Path, write) -> None:
    mirror = write(tmp_path / "mirror", "codex-s.zip", NAMES | {"codex-s/test.txt": "b\tq\tb\n"})
    refused(tmp_path, r"mirror(/codex-s\.zip)?: codex-s/test\.txt has md5 \w+: it must be", "codex-s", mirror)
    assert not (tmp_path / "root" / "codex-s").exists()


def test_an_archive_with_a_path_outside_its_folder_is_refused(tmp_path: Path) -> None:
    mirror = write_archive(tmp_path / "mirror", "codex-s.zip", NAMES | {"../x": "outside"})
    refused(tmp_path, r"contains '\.\./x', a path outside its folder", "codex-s", mirror)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (
            "Train/triple2id.txt",
            "4\n1 2 0\n",
            r"triple2id\.txt, line 1: '4': it must be 1, the number of lines after it$",
        ),
        (
            "Train/triple2id.txt",
            "1 2 0\n2 0 0\n",
            r"triple2id\.txt, line 1: '1 2 0': add a first line with 2, the number of lines",
        ),
        ("Train/triple2id.txt", "", r"triple2id\.txt is empty: its first line must be the number of lines"),
        ("Train/triple2id.txt", "2\n1 2 0\n1 2\n", r"line 3: 2 columns: it must have 3, subject, object, predicate"),
        ("Train/triple2id.txt", "2\n1 2 0\n1 3 0\n", r"line 3: object 3 is not in instance2id\.txt"),
        ("Train/triple2id.txt", "2\n1 2 0\n1 2 2\n", r"line 3: predicate 2 is not in relation2id\.txt"),
        ("Valid/triple2id_negative.txt", "1\n-1 2 0\n", r"negative\.txt, line 2: subject -1 is not in instance2id"),
        ("Train/instance2id.txt", "3\nc\t0\na\t1\nb\t1\n", r"instance2id\.txt, line 4: the id 1 occurs twice"),
        ("Train/instance2id.txt", "3\nc\t0\na\t1\na\t2\n", r"instance2id\.txt, line 4: the name a occurs twice"),
        ("Train/instance2id.txt", "3\nc\t0\n\t1\nb\t2\n", r"instance2id\.txt, line 3: the name is empty"),
        ("Train/relation2id.txt", "2\nr 0\nq\t1\n", r"relation2id\.txt, line 2: 1 columns: it must have 2, name, id"),
        (
            "Train/relation2id.txt",
            "1\nr\t0\nq\t1\n",
            r"relation2id\.txt, line 1: '1': it must be 2, the number of lines after it$",
        ),
    ],
)
def test_a_fault_of_a_file_of_ids_is_reported_with_file_and_line(
    tmp_path: Path, path: str, text: str, message: str
) -> None:
    texts = IDS | {f"YAGO39K/{path}": text}
    mirror = write_plain(tmp_path / "mirror", texts)
    refused(tmp_path, message, "yago39k", mirror, small("yago39k", texts))


def test_all_faults_of_files_of_ids_are_reported_at_once(tmp_path: Path) -> None:
    texts = IDS | {
        "YAGO39K/Train/triple2id.txt": "1\n7 2 0\n8 2 9\n",
        "YAGO39K/Test/triple2id_negative.txt": "1\n1 2\n",
    }
    mirror = write_plain(tmp_path / "mirror", texts)
    message = r"line 1: '1'.*line 2: subject 7.*line 3: subject 8.*line 3: predicate 9.*negative\.txt, line 2: 2 col"
    refused(tmp_path, message, "yago39k", mirror, small("yago39k", texts))


def test_windows_line_ends_and_a_missing_last_one_have_no_effect(tmp_path: Path) -> None:
    texts = {path: text.replace("\n", "\r\n").rstrip() for path, text in IDS.items()}
    mirror = tmp_path / "mirror"
    for path, text in texts.items():
        (mirror / path).parent.mkdir(parents=True, exist_ok=True)
        (mirror / path).write_bytes(text.encode())
    check(graph_of(small("yago39k", texts), tmp_path / "root", str(mirror)))


def test_a_byte_order_mark_has_no_effect(tmp_path: Path) -> None:
    texts = {path: f"\ufeff{text}" for path, text in IDS.items()}
    mirror = write_plain(tmp_path / "mirror", texts)
    check(graph_of(small("yago39k", texts), tmp_path / "root", str(mirror)))


def test_few_triples_with_both_labels_are_counted_and_a_repeated_file_is_refused(tmp_path: Path) -> None:
    """YAGO39K has 6 such triples in its validation files, and 4 in its test files."""
    rows = [f"{s}\t{p}\t{o}\n" for s in "abc" for p in "qr" for o in "abc"]
    texts = NAMES | {"codex-s/train.txt": rows[0] + rows[4] + rows[8], "codex-s/valid.txt": "".join(rows[9:])}
    texts |= {"codex-s/valid_negatives.txt": "".join(rows[1:4] + rows[5:8] + rows[9:10]), "codex-s/test.txt": rows[3]}
    prepared = graph_of(small("codex-s", texts), tmp_path / "a", str(write_plain(tmp_path / "mirror", texts)))
    assert prepared.counts["valid_negatives_true_in_valid"] == 1
    texts |= {"codex-s/valid_negatives.txt": texts["codex-s/valid.txt"]}
    mirror = write_plain(tmp_path / "mirror", texts)
    message = r"valid_negatives\.txt: 9 of 9 negatives are also in codex-s/valid\.txt: a triple cannot be both"
    refused(tmp_path, message, "codex-s", mirror, small("codex-s", texts))


@pytest.mark.skipif(not REAL.is_file(), reason="KGCAL_MIRROR is not a folder with the held-out files of YAGO39K")
def test_the_real_held_out_files_of_yago39k(tmp_path: Path) -> None:
    spec = DATASETS.get("yago39k")
    refused(tmp_path, r"yago39k-heldout-only\.zip has no YAGO39K/Train/triple2id\.txt", "yago39k", REAL.parent, spec)
    with zipfile.ZipFile(REAL) as zipped:
        zipped.extractall(tmp_path)
    for file in spec.files.values():
        if file.md5:
            assert hashlib.md5((tmp_path / file.path).read_bytes()).hexdigest() in file.md5
    vocabularies = [read_vocabulary(tmp_path / spec.files[role].path) for role in ("entities", "predicates")]
    assert [len(vocabulary.names) for vocabulary in vocabularies] == [39_374, 37]
    rows = {"valid": 9_341, "valid_negatives": 9_341, "test": 9_364, "test_negatives": 9_364}
    for role, count in rows.items():
        [block] = read_numbered(TriplesFile(tmp_path / spec.files[role].path), *vocabularies)
        assert (len(block.names), block.faults) == (count, ())
        if role == "valid":
            first = list(block.names.to_pylist()[0].values())
            assert first == [
                "<Tomislav_Erceg>",
                "<playsFor>",
                "<SpVgg_Greuther_Fürth>",
            ]
