"""What is installed: the lock and its hashes, the audit of known vulnerabilities, the bill of materials."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pipeline.command import copy_of_the_code
from tests.pipeline.forks import CHECKOUT

HASH = r" --hash=sha256:[0-9a-f]{64}"
OF_CUDA = r"(cuda|nvidia)-|triton$"
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]


def pins(name: str, hashes: str = "") -> dict[str, Requirement]:
    """Return package -> pinned requirement of a file. Each of its lines ends with `hashes`."""
    pinned = {}
    for line in (CHECKOUT / name).read_text().splitlines():
        if not line.startswith("#"):
            found = re.fullmatch(rf"(.*?){hashes}", line)
            assert found, line
            requirement = Requirement(found[1])
            assert [exact.operator for exact in requirement.specifier] == ["=="], line
            pinned[canonicalize_name(requirement.name)] = requirement
    return pinned


LOCK = pins("requirements.txt", rf"({HASH})+")


def test_the_lock_has_the_hashes_of_every_package_that_the_project_needs() -> None:
    extras, waiting = PROJECT["optional-dependencies"], [*PROJECT["dependencies"], "kgcal[dev]"]
    while waiting:
        asked = Requirement(waiting.pop())
        if asked.name == "kgcal":
            waiting += [line for extra in asked.extras for line in extras[extra]]
        else:
            [exact] = LOCK[canonicalize_name(asked.name)].specifier
            assert asked.specifier.contains(exact.version), asked


@pytest.mark.parametrize("python", ["3.11.7", "3.12.1", "3.13.0"])
def test_the_lock_is_complete_for_each_python(python: str) -> None:
    """What an installed package needs is in the lock, or not needed there."""
    here = {**default_environment(), "python_full_version": python, "python_version": python.rpartition(".")[0]}
    missing = []
    for package in distributions():
        name = canonicalize_name(package.name)
        if name not in LOCK:
            continue
        for line in package.requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({**here, "extra": ""}):
                locked = LOCK.get(canonicalize_name(needed.name))
                if locked is None or not (locked.marker is None or locked.marker.evaluate(here)):
                    missing.append(f"{name} needs {line}")
    assert missing == []


def test_the_other_files_pin_what_the_lock_pins() -> None:
    constraints = pins("constraints.txt")
    assert constraints == {name: pin for name, pin in LOCK.items() if not re.match(OF_CUDA, name)}
    of_torch = pins("torch-cpu.txt", rf"({HASH})+")
    assert of_torch == {"torch": LOCK["torch"]}
    locked, image = (without_markers(name) for name in ("requirements.txt", "deploy/requirements.txt"))
    assert image < locked
    assert not any(line.startswith(("torch==", "mypy==", "pytest==")) for line in image)


def without_markers(name: str) -> set[str]:
    """Return the lines of a lock without what they say about Pythons and systems."""
    lines = (CHECKOUT / name).read_text().splitlines()
    return {re.sub(" ;.*?(?= --hash)", "", line) for line in lines if not line.startswith("#")}


def test_a_file_that_differs_from_its_hash_is_not_installed(tmp_path: Path) -> None:
    """The commands of the Makefile have pip compare hashes: here with a wheel that was changed on its way."""
    makefile = (CHECKOUT / "Makefile").read_text()
    [recipe] = re.findall(r"^\$\(READY\): .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    installs = [line for line in recipe.replace("\\\n", "").splitlines() if "$(PIP) install" in line]
    assert len(installs) == 4
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation --editable" in line for line in installs)
    (tmp_path / "iniconfig-2.3.1-py3-none-any.whl").write_bytes(b"something else")
    line = next(
        line for line in (CHECKOUT / "requirements.txt").read_text().splitlines() if line.startswith("iniconfig")
    )
    (tmp_path / "one.txt").write_text(f"{line}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-index", "--find-links", ".", "--no-deps", "--dest", "got"]
    done = subprocess.run(
        [*command, "--require-hashes", "--requirement", "one.txt"],
        cwd=tmp_path,
        env={**os.environ, "PIP_FIND_LINKS": "", "PIP_CONSTRAINT": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr


@contextmanager
def service(vulnerable: str) -> Iterator[str]:
    """Serve OSV's answers about one vulnerable package. Yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}]}]
            package = {"name": vulnerable, "ecosystem": "PyPI"}
            found = {"id": "PYSEC-2026-1", "summary": "made", "affected": [{"package": package, "ranges": ranges}]}
            body = json.dumps({"vulns": [found]} if asked["package"]["name"] == vulnerable else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def audit(address: str) -> "subprocess.CompletedProcess[str]":
    variables = {**os.environ, "BIN": str(Path(sys.executable).parent)}
    command = [str(CHECKOUT / ".ci" / "audit"), "--osv-url", address]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@pytest.mark.long
def test_the_audit_asks_about_every_package_and_ends_with_1_if_one_is_vulnerable() -> None:
    with service("urllib3") as address:
        done = audit(address)
    assert done.returncode == 1, done.stderr
    assert re.search(rf"urllib3 +{version('urllib3')} +PYSEC-2026-1", done.stdout)
    with service("no-such-package") as address:
        done = audit(address)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("No known vulnerabilities found\n")


def test_an_audit_without_a_service_says_that_nothing_was_audited() -> None:
    done = audit("http://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.startswith("nothing was audited, because the vulnerability service does not answer: run ")
    assert done.stderr.count("\n") == 1


def test_every_vulnerability_that_is_left_out_has_a_reason() -> None:
    for line in (CHECKOUT / ".ci" / "vulnerabilities").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"(PYSEC|CVE|GHSA)-\S+ \S.{20,}", line), line


@pytest.mark.long
def test_a_build_can_be_installed_and_has_a_bill_of_its_materials(tmp_path: Path) -> None:
    folder = copy_of_the_code(tmp_path)
    shutil.copytree(CHECKOUT / ".ci", folder / ".ci")
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(CHECKOUT / name, folder)
    make = ["make", "dist", f"BIN={Path(sys.executable).parent}", "READY="]
    done = subprocess.run(make, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel], [bill], [_source] = (folder.glob(f"dist/*.{end}") for end in ("whl", "cdx.json", "tar.gz"))
    assert f"\nkgcal {PROJECT['version']}\n" in done.stdout  # of the command in the new environment
    assert wheel.name == f"kgcal-{PROJECT['version']}-py3-none-any.whl"
    assert bill.name == f"kgcal-{PROJECT['version']}.cdx.json"
    listed = json.loads(bill.read_text())
    assert (listed["bomFormat"], listed["metadata"]["component"]["name"]) == ("CycloneDX", "kgcal")
    versions = {canonicalize_name(part["name"]): part["version"].partition("+")[0] for part in listed["components"]}
    for name, pin in LOCK.items():
        if (pin.marker is None or pin.marker.evaluate()) and (name in versions or not re.match(OF_CUDA, name)):
            assert pin.specifier.contains(versions[name]), name
