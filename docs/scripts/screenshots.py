"""Take the screenshots of the documentation: start servers, run small pipelines, and open pages in headless Chromium.

    pip install playwright && python docs/scripts/screenshots.py

The script uses the system's Chromium (`chromium` on the PATH). Everything runs in a temporary KGCAL_HOME, on free ports
of 127.0.0.1, and is stopped at the end.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
SMALL = ["--size", "600", "--k", "32", "--epochs", "40", "--batch-size", "256"]
RUNS = [[], ["--loss", "pairwise"], ["--model", "distmult"], ["--model", "complex", "--loss", "nll"]]


class Home:
    """A KGCAL_HOME, and the addresses of its servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"KGCAL_HOME": str(folder), "COLUMNS": "120"}
        self.mlflow, self.prefect = (f"http://127.0.0.1:{port}" for port in (free_port(), free_port()))

    def kgcal(self, *arguments: str) -> str:
        """Run a `kgcal` command and return its output."""
        command = [sys.executable, "-m", "flows.cli", *arguments]
        done = subprocess.run(  # noqa: S603
            command, env=self.environment, check=True, text=True, stdout=subprocess.PIPE
        )
        return done.stdout

    def newest_flow_run(self, name: str) -> str:
        """Return the id of the newest finished run of that flow. Scheduled runs are newer, but not finished."""
        finished = {"state": {"type": {"any_": ["COMPLETED"]}}}
        wanted = {"flows": {"name": {"any_": [name]}}, "flow_runs": finished, "sort": "END_TIME_DESC", "limit": 1}
        answer = requests.post(f"{self.prefect}/api/flow_runs/filter", json=wanted, timeout=20)
        return str(answer.json()[0]["id"])

    def deployment(self, name: str) -> str:
        """Return the id of the deployment with the name FLOW/DEPLOYMENT."""
        return str(requests.get(f"{self.prefect}/api/deployments/name/{name}", timeout=20).json()["id"])


@contextmanager
def served(folder: Path) -> Iterator[Home]:
    """Start the servers of a home, yield the home, and stop the servers when the block ends."""
    home = Home(folder)
    ports = [home.mlflow.rsplit(":", 1)[1], home.prefect.rsplit(":", 1)[1]]
    home.kgcal("up", "--mlflow-port", ports[0], "--prefect-port", ports[1])
    try:
        yield home
    finally:
        home.kgcal("down")


def free_port() -> int:
    """Return a port of 127.0.0.1 that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pictures(home: Home) -> dict[str, tuple[str, str]]:
    """Return name of a picture -> address of the page, and a text that appears when the page has loaded."""
    target = home.folder / "out.json"
    home.kgcal("run", *SMALL, "--json", str(target))
    run = home.newest_flow_run("pipeline")
    for options in RUNS[1:]:
        home.kgcal("run", *SMALL, *options)
    home.kgcal("promote", "--dataset", "family")
    compared = home.kgcal("compare", "--dataset", "family")
    [table] = [line.split()[-1] for line in compared.splitlines() if line.startswith("family in MLflow:")]
    summary = json.loads(target.read_text())
    pipeline = f"{home.mlflow}/#/experiments/1/runs/{summary['pipeline']}"
    form = f"{home.prefect}/deployments/deployment/{home.deployment('calibrate/stage-calibrate')}/run"
    return {
        "prefect-run": (f"{home.prefect}/runs/flow-run/{run}?tab=Artifacts", "summary"),
        "prefect-form": (form, "Base Rate"),
        "mlflow-runs": (table, "gt.isotonic"),
        "mlflow-chart": (f"{table}&compareRunsMode=CHART", "brier"),
        "mlflow-run": (pipeline, "Description"),
        "mlflow-champion": (f"{home.mlflow}/#/models/kgcal-family", "champion"),
    }


def take(page: Page, name: str, address: str, awaited: str) -> None:
    """Take one screenshot."""
    page.goto("about:blank")  # the browser would not load a page again that differs only after the '#'
    page.goto(address)
    if name == "prefect-run":
        page.get_by_text("Artifacts").first.click()
    page.get_by_text(awaited).first.wait_for()
    assistant = page.locator("[aria-label='Close'], [data-component-id*='assistant'][data-component-id*='close']")
    if "mlflow" in name and assistant.count():
        assistant.first.click()
    page.wait_for_timeout(6_000)  # charts appear after the text
    page.screenshot(path=IMAGES / f"{name}.png")
    print(IMAGES / f"{name}.png")


def main() -> None:
    """Take all screenshots, or those named on the command line."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.set_default_timeout(180_000)  # on a busy machine, the first page of a server is slow
        for name, (address, awaited) in pictures(home).items():
            if not sys.argv[1:] or name in sys.argv[1:]:
                take(page, name, address, awaited)
        browser.close()


if __name__ == "__main__":
    main()
