"""A full disk is one sentence that names the folder, and costs nothing: with space, the same command ends as usual.

DISKS is how many random commands find a full disk, after a random number of bytes. SEED chooses them.
"""

import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgcore.errors import InputError
from tasks.workspace.resources import check_room, full_disk
from tests.pipeline.all_commands import COMMANDS, SEED, check_tidy, outcome, prepared, undisturbed
from tests.pipeline.command import Kgcal, all_runs

pytestmark = pytest.mark.kills

RUN = ("--size", "300", "--k", "16", "--epochs", "5", "--calibrators", "platt,isotonic")
SIZES = ("300k", "1500k", "1800k", "2500k")
DISKS = int(os.environ.get("DISKS", "2"))
Resize = Callable[[str], None]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Resize]]:
    """Yield a small disk, and a function that changes its size."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={SIZES[0]}", "tmpfs", str(folder))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a disk")
    yield folder, lambda size: subprocess.run(("mount", "-o", f"remount,size={size}", str(folder)), check=True) and None
    subprocess.run(("umount", "--lazy", str(folder)), check=True)  # MLflow's client keeps the database open


def refused(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the only sentence of a command that could not write."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    return sentence


def figures(kgcal: Kgcal) -> list[object]:
    found = kgcal.results(*RUN)
    return [found[name] for name in ("metrics", "intervals", "ranks", "accuracy_per_relation")]


def test_a_full_disk_is_one_sentence_and_costs_nothing(disk: tuple[Path, Resize], tmp_path: Path) -> None:
    folder, resize = disk
    kgcal = Kgcal(folder)
    for size in SIZES:
        resize(size)
        assert str(folder) in refused(kgcal("run", *RUN))
    resize("100m")
    assert figures(kgcal) == figures(Kgcal(tmp_path / "undisturbed"))
    assert not list((kgcal.home / "tmp").iterdir())
    assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}


@pytest.mark.parametrize("number", range(DISKS))
def test_any_command_says_that_the_disk_is_full_and_then_gives_the_same_answer(
    number: int, disk: tuple[Path, Resize]
) -> None:
    rng, (folder, resize) = random.Random(f"{SEED} {number}"), disk
    name = rng.choice(list(COMMANDS))
    resize("100m")
    expected, kgcal = undisturbed(name), prepared(name, folder)
    room = int(rng.random() * expected.bytes)
    resize(str(shutil.disk_usage(folder).used + room))
    done = kgcal(*COMMANDS[name])
    print(f"{name}: {room:,} of {expected.bytes:,} bytes: status {done.returncode}")
    assert str(folder) in refused(done)
    resize("100m")
    assert outcome(name, kgcal).left == expected.left
    check_tidy(kgcal)


def test_a_file_that_may_not_grow_is_one_sentence(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    done = subprocess.run(
        kgcal.command("run", *RUN),
        env=kgcal.environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_100_000, 1_100_000)),  # below MLflow's database
    )
    assert str(kgcal.home) in refused(done)


def test_an_output_that_takes_no_more_is_named(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    for command in ("datasets", "--help", "--version"):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                kgcal.command(command),
                env=kgcal.environment,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert refused(done).startswith("kgcal: the standard output takes no more (No space left on device)")


def test_an_output_that_is_closed_is_named(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    words = " ".join(kgcal.command("datasets"))
    done = subprocess.run(
        f"{words} >&-", shell=True, env=kgcal.environment, capture_output=True, text=True, check=False
    )
    assert refused(done) == "kgcal: the standard output is closed: to read no answer, send it to /dev/null"


def test_the_cause_of_an_error_counts() -> None:
    def wrapped(error: OSError) -> Exception:
        try:
            try:
                raise error
            except OSError as reason:
                raise RuntimeError("it cannot be saved") from reason
        except RuntimeError as outer:
            return outer

    assert full_disk(wrapped(OSError(28, "No space left on device", "/data/x/y.bin"))) == (
        "nothing more can be written to /data/x (No space left on device): free space and run the same command again"
    )
    copied = full_disk(OSError(28, "No space left on device", "/mirror/y.bin", None, "/data/x/y.bin"))
    assert copied == full_disk(wrapped(OSError(28, "No space left on device", "/data/x/y.bin")))
    assert full_disk(wrapped(OSError(2, "No such file or directory", "/data/x"))) is None


@pytest.mark.usefixtures("home")
def test_work_that_does_not_fit_is_refused_before_it_starts(home: Path) -> None:
    check_room("a table", memory=1, disk=1)
    with pytest.raises(
        InputError, match=r"^a table needs about 1,000,000,000.0 GB, and [\d,.]+ GB of memory are free$"
    ):
        check_room("a table", memory=10**18)
    with pytest.raises(InputError, match=rf"^a table needs .* GB of the disk of {home} are free$"):
        check_room("a table", disk=10**18)
    done = Kgcal(home)("run", *RUN, "--calibration-eta", "1000000000")
    assert "a table of" in refused(done)
