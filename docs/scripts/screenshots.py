"""Take the screenshots of the documentation: start servers, run small pipelines, and open pages in headless Chromium.

    python docs/scripts/screenshots.py                          # all
    python docs/scripts/screenshots.py serve serve-explanation  # those of `kgcal serve`
    python docs/scripts/screenshots.py report                   # that of the report

The script uses the system's Chromium (chromium.py). Everything runs in a temporary KGCAL_HOME, on free ports
of 127.0.0.1, and is stopped at the end.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from chromium import Browser, Page, chromium, waited

IMAGES = Path(__file__).parents[1] / "images"
SMALL = ["--size", "600", "--k", "32", "--epochs", "40", "--batch-size", "256"]
SERVERS = ("prefect-run", "prefect-form", "mlflow-runs", "mlflow-chart", "mlflow-run", "mlflow-champion")
PAGES = ("serve", "serve-explanation")  # pictures of the page of `kgcal serve`
REPORT = "report"  # picture of the HTML report of a run
PATIENCE = 180.0  # seconds: on a busy machine, the first page of a server is slow
ASSISTANT = '[aria-label="Close"], [data-component-id*="assistant"][data-component-id*="close"]'
RUNS = [[], ["--loss", "pairwise"], ["--model", "distmult"], ["--model", "complex", "--loss", "nll"]]


class Home:
    """A KGCAL_HOME, and the addresses of its servers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"KGCAL_HOME": str(folder), "COLUMNS": "120"}
        self.mlflow, self.prefect = (f"http://127.0.0.1:{port}" for port in (free_port(), free_port()))

    def kgcal(self, *arguments: str) -> str:
        """Run a `kgcal` command and return its output."""
        command = [sys.executable, "-m", "kgcal", *arguments]
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
    pipeline = f"{table.partition('/runs')[0]}/runs/{summary['pipeline']}"
    form = f"{home.prefect}/deployments/deployment/{home.deployment('calibrate/stage-calibrate')}/run"
    return {
        "prefect-run": (f"{home.prefect}/runs/flow-run/{run}?tab=Artifacts", "summary"),
        "prefect-form": (form, "Base Rate"),
        "mlflow-runs": (table, "ground truth"),
        "mlflow-chart": (f"{table}&compareRunsMode=CHART", "brier"),
        "mlflow-run": (pipeline, "Description"),
        "mlflow-champion": (f"{home.mlflow}/#/models/kgcal-family", "champion"),
    }


def question(home: Home) -> str:
    """Return the query of a question that has known and unknown answers, for the page of `kgcal serve`."""
    home.kgcal("run", *SMALL)
    home.kgcal("promote", "--dataset", "family")
    return "?subject=person_161&predicate=sibling_of&top=10"


def take(page: Page, name: str, address: str, awaited: str) -> None:
    """Take one screenshot of a server of `kgcal up`."""
    page.open("about:blank")  # the browser would not load a page again that differs only after the '#'
    page.open(address, PATIENCE)
    if name == "prefect-run":
        page.click_on(with_text("Artifacts"), PATIENCE)
    page.until(with_text(awaited), PATIENCE)
    if "mlflow" in name and page.evaluate(f"Boolean(document.querySelector({ASSISTANT!r}))"):
        page.click(ASSISTANT)
    time.sleep(6)  # charts appear after the text
    store(page, name)


def with_text(text: str) -> str:
    """Return a JavaScript expression that gives the innermost visible element with a text."""
    wanted = json.dumps(text.lower())
    visible = f"element.checkVisibility() && element.textContent.toLowerCase().includes({wanted})"
    return f"[...document.body.querySelectorAll('*')].filter(element => {visible}).at(-1)"


def store(page: Page, name: str, whole: bool = False) -> None:
    """Store a picture in the folder of the documentation."""
    page.screenshot(IMAGES / f"{name}.png", whole)
    print(IMAGES / f"{name}.png")


def take_servers(browser: Browser, wanted: list[str]) -> None:
    """Take the screenshots of the MLflow UI and the Prefect UI."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as home:
        page = browser.page(1600, 900)
        for name, (address, awaited) in pictures(home).items():
            if name in wanted:
                take(page, name, address, awaited)


def take_page(browser: Browser) -> None:
    """Take the screenshots of the page of `kgcal serve`: answers, and an explanation."""
    with tempfile.TemporaryDirectory() as folder:
        home, port = Home(Path(folder)), free_port()
        query = question(home)
        command = [sys.executable, "-m", "kgcal", "serve", "--dataset", "family", "--port", str(port)]
        process = subprocess.Popen(command, env=home.environment)  # noqa: S603
        try:
            waited(lambda: answers(port), "server", PATIENCE)
            page = browser.page(1000, 800)
            page.open(f"http://127.0.0.1:{port}/{query}")
            page.until("document.querySelector('#answers .badge')")
            store(page, "serve", whole=True)
            page.click("#answers tr:nth-child(3) .link")
            page.until("document.querySelector('.why')")
            page.resize(1000, 1240)
            page.evaluate("document.querySelector('#answers').scrollIntoView()")
            store(page, "serve-explanation")
        finally:
            process.terminate()
            process.wait()


def take_report(browser: Browser) -> None:
    """Take the screenshot of the report of the generated family graph."""
    with tempfile.TemporaryDirectory() as folder:
        Home(Path(folder)).kgcal("run")
        [report] = Path(folder).glob("reports/*/report.html")
        page = browser.page(900, 1000)
        page.open(report.as_uri())
        store(page, REPORT, whole=True)


def answers(port: int) -> bool:
    """Return whether a server answers at /health."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok
    except requests.ConnectionError:
        return False


def main() -> None:
    """Take all screenshots, or those named on the command line."""
    IMAGES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or [*SERVERS, *PAGES, REPORT]
    with chromium() as browser:
        if set(wanted) & set(PAGES):
            take_page(browser)
        if REPORT in wanted:
            take_report(browser)
        if set(wanted) & set(SERVERS):
            take_servers(browser, wanted)


if __name__ == "__main__":
    main()
