"""Graphs made from archives and text files; every fault of a file raises an error of one sentence."""

import hashlib
import http.server
import threading
import zipfile
from functools import partial
from pathlib import Path

import pytest

from kgcore.data.datasets.base import DatasetSpec, ExpectedCounts, SplitFile, find_dataset
from kgcore.data.datasets.fetch import fetch
from kgcore.data.datasets.prepare import prepare
from kgcore.errors import InputError
from kgcore.registries import DATASETS

TRAIN = "a\tr\tb\nb\tr\tc\nc\tq\ta\na\tr\tb\n"
VALID = "a\tr\tc\t1\na\tq\tb\t-1\na\tr\tc\t1\n"
TEST = "b\tq\ta\t1\nb\tr\ta\t-1\na\tr\tnew\t1\n"


def write(folder: Path, **texts: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"train": TRAIN, "valid": VALID, "test": TEST, **texts}.items():
        (folder / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def read(folder: Path):
    spec = find_dataset(str(folder))
    return prepare(spec, fetch(spec, folder.parent / "root"))


def archived(tmp_path: Path, **changes) -> tuple[DatasetSpec, Path]:
    """Return a data set whose archive is in a mirror folder, and the mirror."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    texts = {"train": TRAIN, "valid": VALID, "test": TEST}
    with zipfile.ZipFile(mirror / "toy.zip", "w") as zipped:
        for name, text in texts.items():
            zipped.writestr(f"toy/{name}.txt", text)
    md5 = {name: hashlib.md5(text.encode()).hexdigest() for name, text in texts.items()}
    files = {name: SplitFile(f"toy/{name}.txt", (md5[name],)) for name in texts}
    options = {"name": "toy", "title": "toy", "files": files, "labelled": True, "archives": ("toy.zip",)}
    options["url"] = "http://127.0.0.1:1/toy.zip"
    return DatasetSpec(**{**options, **changes}), mirror


def test_a_folder_becomes_a_graph_and_dropped_rows_are_counted(tmp_path: Path) -> None:
    prepared = read(write(tmp_path / "mine"))
    graph, counts = prepared.graph, prepared.counts
    assert (graph.name, graph.entities, graph.predicates) == ("mine", ["a", "b", "c"], ["q", "r"])
    assert graph.train.triples.tolist() == [[0, 1, 1], [1, 1, 2], [2, 0, 0]]
    assert graph.valid.positives.tolist() == [[0, 1, 2]]
    assert graph.valid.negatives.tolist() == [[0, 0, 1]]
    assert graph.labelled
    assert counts["train_duplicates"] == 1
    assert counts["valid_duplicates"] == 1
    assert counts["test_with_unseen"] == 1
    assert counts["entities_in_all_files"] == 4


def test_the_fingerprint_ignores_the_order_of_lines_only(tmp_path: Path) -> None:
    first = read(write(tmp_path / "a" / "mine")).graph
    turned = "".join(reversed(TRAIN.splitlines(keepends=True)))
    assert read(write(tmp_path / "b" / "mine", train=turned)).graph.fingerprint() == first.fingerprint()
    assert read(write(tmp_path / "c" / "mine", train=TRAIN + "c\tr\ta\n")).graph.fingerprint() != first.fingerprint()


def test_overlaps_and_triples_with_both_labels_are_counted(tmp_path: Path) -> None:
    valid = "".join(f"a\tr\tx{i}\t1\n" for i in range(9)) + "a\tr\tb\t1\nb\tr\tc\t-1\na\tr\tx1\t-1\n"
    train = TRAIN + "".join(f"x{i}\tr\ta\n" for i in range(9))
    counts = read(write(tmp_path / "mine", train=train, valid=valid)).counts
    assert counts["valid_positives_in_train"] == 1
    assert counts["valid_negatives_true_in_train"] == 1
    assert counts["valid_negatives_true_in_valid"] == 1
    with pytest.raises(InputError, match=r"1 of 1 positives of valid are also in train: a held-out split must not"):
        read(write(tmp_path / "leaky", valid="a\tr\tb\t1\na\tq\tb\t-1\n"))


def test_a_data_set_without_a_fourth_column_has_no_negatives(tmp_path: Path) -> None:
    graph = read(write(tmp_path / "mine", valid="a\tr\tc\n", test="b\tq\ta\n")).graph
    assert not graph.labelled
    assert graph.valid.labels.tolist() == [1]


def test_names_may_hold_anything_but_tabs_and_newlines(tmp_path: Path) -> None:
    train = 'a"b\tr\tNA\nNA\tr\tnull\n1\tr\tä "x\' ,;\n'
    graph = read(write(tmp_path / "mine", train=train, valid='1\tr\ta"b\n', test="1\tr\tNA\n")).graph
    assert set(graph.entities) == {'a"b', "NA", "null", "1", "ä \"x' ,;"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"train": "a\tr\tb\na\tr\n"}, r"train\.txt, line 2: 2 tab-separated columns: it must have 3"),
        ({"train": "a\tr\tb\n\nc\tr\td\n"}, r"train\.txt, line 2: subject is empty"),
        ({"train": "a\tr\tb\tc\n"}, r"train\.txt, line 1: 4 tab-separated columns: it must have 3"),
        ({"valid": "a\tr\tc\t1\na\tr\tb\t2\n"}, r"valid\.txt, line 2: label is '2': it must be 1 or -1"),
        ({"train": ""}, r"train\.txt is empty"),
        ({"train": "\n \n"}, r"train\.txt is empty"),
        ({"train": b"a\tr\tb\nb\tr\t\xff\n"}, r"train\.txt, line 2: byte 0xff is not UTF-8"),
        ({"train": "a\tr\tb\n\tr\tb\n"}, r"train\.txt, line 2: subject is empty"),
        ({"test": "new\tr\talso\t1\nb\tr\ta\t-1\n"}, "test has no true triple whose entities"),
    ],
)
def test_a_fault_is_reported_with_file_and_line(tmp_path: Path, texts: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "mine", **texts))


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", train="a\t\tb\n", valid="a\tr\tc\tyes\na\tr\tc\t2\n" * 20)
    with pytest.raises(InputError) as caught:
        read(folder)
    message = str(caught.value)
    assert "train.txt, line 1: predicate is empty" in message
    assert "valid.txt, line 1: label is 'yes'" in message
    assert "valid.txt, line 2: label is '2'" in message
    assert "(and 31 more)" in message


def test_a_line_with_wrong_columns_does_not_hide_or_shift_other_faults(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine", train="a\tr\na\tr\tb\n\tr\tb\na\n")
    with pytest.raises(InputError, match=r"line 1: 2 tab-.*line 4: 1 tab-.*line 3: subject is empty"):
        read(folder)


def test_a_test_split_inside_a_larger_validation_split_is_refused(tmp_path: Path) -> None:
    rows = [f"{s}\tr\t{o}\t1\n" for s in "abc" for o in "abc"]
    with pytest.raises(InputError, match="3 of 3 positives of test are also in valid"):
        read(
            write(
                tmp_path / "mine", train="a\tq\tb\nb\tr\tc\nc\tq\ta\n", valid="".join(rows[:5]), test="".join(rows[:3])
            )
        )


def test_a_folder_without_a_split_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "mine")
    (folder / "valid.txt").unlink()
    with pytest.raises(InputError, match=r"has no valid\.txt or dev\.txt"):
        find_dataset(str(folder))
    with pytest.raises(
        InputError, match="the folder no/such/folder does not exist: a data set is a folder or one of codex-m"
    ):
        find_dataset("no/such/folder")
    with pytest.raises(InputError, match="unknown data set 'wn12': the known ones are codex-m, codex-s, family, fb13"):
        find_dataset("wn12")


@pytest.mark.parametrize("scheme", ["{}", "file://{}"])
def test_a_mirror_folder_serves_the_archive(tmp_path: Path, scheme: str) -> None:
    spec, mirror = archived(tmp_path)
    folder = fetch(spec, tmp_path / "root", scheme.format(mirror))
    assert (folder / "toy" / "train.txt").read_text() == TRAIN
    (mirror / "toy.zip").unlink()
    assert fetch(spec, tmp_path / "root", str(mirror)) == folder  # the files exist already


def test_a_changed_file_is_fetched_again(tmp_path: Path) -> None:
    spec, mirror = archived(tmp_path)
    folder = fetch(spec, tmp_path / "root", str(mirror))
    (folder / "toy" / "train.txt").write_text("spoilt")
    assert (fetch(spec, tmp_path / "root", str(mirror)) / "toy" / "train.txt").read_text() == TRAIN


def test_a_mirror_url_serves_the_archive_and_reports_progress(tmp_path: Path) -> None:
    spec, mirror = archived(tmp_path)
    seen: list[int] = []

    class Bar:
        total = 0

        def __init__(self, title: str) -> None:
            assert title == "download toy.zip"

        def update(self, n: int) -> None:
            seen.append(n)

        def reset(self) -> None:
            seen.clear()

        def close(self) -> None:
            pass

    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # polls often: it ends soon
        url = f"http://127.0.0.1:{server.server_port}"
        folder = fetch(spec, tmp_path / "root", url, progress=Bar)
        assert (folder / "toy" / "test.txt").read_text() == TEST
        assert sum(seen) == (mirror / "toy.zip").stat().st_size
        (mirror / "toy.zip").unlink()
        with pytest.raises(InputError, match=r"toy\.zip could not be downloaded from .*404"):
            fetch(spec, tmp_path / "other", url)
        server.shutdown()
    assert_no_leftovers(tmp_path / "other")


def assert_no_leftovers(root: Path) -> None:
    assert [p.name for p in root.iterdir() if p.suffix != ".lock"] == []


def spoil_checksum(mirror: Path) -> None:
    with zipfile.ZipFile(mirror / "toy.zip", "w") as zipped:
        for name in ("train", "valid", "test"):
            zipped.writestr(f"toy/{name}.txt", "other")


def truncate(mirror: Path) -> None:
    data = (mirror / "toy.zip").read_bytes()
    (mirror / "toy.zip").write_bytes(data[: len(data) // 2])


def spoil_bytes(mirror: Path) -> None:
    data = bytearray((mirror / "toy.zip").read_bytes())
    data[40:44] = b"\0\0\0\0"
    (mirror / "toy.zip").write_bytes(data)


def climb_out(mirror: Path) -> None:
    with zipfile.ZipFile(mirror / "toy.zip", "a") as zipped:
        zipped.writestr("../x", "outside")


def leave_out(mirror: Path) -> None:
    with zipfile.ZipFile(mirror / "toy.zip", "w") as zipped:
        zipped.writestr("toy/train.txt", TRAIN)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_checksum, r"toy\.zip: toy/train\.txt has md5 .*: it must be"),
        (truncate, r"toy\.zip is damaged or incomplete .*: download it again"),
        (spoil_bytes, r"toy\.zip(: toy/train\.txt has md5| is damaged or incomplete)"),
        (climb_out, r"toy\.zip contains '\.\./x', a path outside its folder"),
        (leave_out, r"toy\.zip has no toy/valid\.txt"),
        (lambda mirror: (mirror / "toy.zip").unlink(), r"has no toy\.zip, which toy needs"),
    ],
)
def test_a_bad_archive_is_refused_and_leaves_nothing(tmp_path: Path, spoil, message: str) -> None:
    spec, mirror = archived(tmp_path)
    spoil(mirror)
    with pytest.raises(InputError, match=message):
        fetch(spec, tmp_path / "root", str(mirror))
    assert_no_leftovers(tmp_path / "root")
    assert not (tmp_path / "x").exists()


def test_a_mirror_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    spec, _ = archived(tmp_path)
    with pytest.raises(InputError, match="the mirror /no/such does not exist"):
        fetch(spec, tmp_path / "root", "/no/such")
    with pytest.raises(InputError, match="the mirror is gopher://x: give a folder, or a file:// or http"):
        fetch(spec, tmp_path / "root", "gopher://x")
    assert_no_leftovers(tmp_path / "root")


def test_concurrent_fetches_do_not_collide(tmp_path: Path) -> None:
    spec, mirror = archived(tmp_path)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetch(spec, tmp_path / "root", str(mirror)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "root" / "toy"] * 8


def test_counts_that_differ_from_the_declared_ones_are_refused(tmp_path: Path) -> None:
    spec, mirror = archived(tmp_path, counts=ExpectedCounts(train_rows=4, train_distinct=3, entities=3, predicates=2))
    prepare(spec, fetch(spec, tmp_path / "root", str(mirror)))
    (tmp_path / "more").mkdir()
    spec, mirror = archived(tmp_path / "more", counts=ExpectedCounts(entities=5))
    with pytest.raises(InputError, match="toy has 3 entities: it must have 5"):
        prepare(spec, fetch(spec, tmp_path / "root", str(mirror)))


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_data_set_declares_its_source(name: str) -> None:
    spec = DATASETS.get(name)
    assert spec.name == name
    roles = {"train", "valid", "test"}
    negatives, vocabularies = {"valid_negatives", "test_negatives"}, {"entities", "predicates"}
    assert set(spec.files) in (roles, roles | negatives, roles | negatives | vocabularies)
    assert (spec.url is None) == (spec.generate is not None)
    if spec.url:
        assert spec.archives
        assert all(len(md5) == 32 for file in spec.files.values() for md5 in file.md5)
        assert spec.counts.train_rows or "entities" in spec.files  # a file of ids begins with its count
