"""The page of `kgcal serve` in headless Chromium: what a person types, clicks, uploads and reads."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests

from tests.docs.scripts import script
from tests.e2e.serving import started
from tests.pipeline.command import Kgcal

chromium = script("chromium")
WIDE, NARROW = (1280, 900), (400, 800)
SIDEWAYS = "document.documentElement.scrollWidth > innerWidth"
ROWS = "#answers > tbody > tr:not(.why)"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    kgcal = Kgcal(tmp_path_factory.mktemp("page"))
    kgcal.results("--dataset", "family", "--size", "300", "--k", "16", "--epochs", "30", "--batch-size", "128")
    with started(kgcal, "serve", "--dataset", "family") as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    made = browser.page(*WIDE)
    made.open(address)
    yield made
    made.close()


def ask(page: Any, **fields: str) -> None:
    for name, text in fields.items():
        page.type(f"#{name}", text)
    page.click("#ask button")


@pytest.fixture(scope="module")
def fact(address: str) -> dict[str, Any]:
    """Return a known fact about cousins, as an answer of the server."""
    for number in range(1, 300):
        query = {"subject": f"person_{number}", "predicate": "cousin_of", "top": "300"}
        found = requests.get(f"{address}/answers", params=query, timeout=20).json().get("answers", [])
        if known := [answer for answer in found if answer["known"]]:
            return dict(known[0])
    raise AssertionError("the graph has no cousins")


def percent(page: Any, probability: float) -> str:
    return str(page.evaluate(f"percent({probability})"))


def test_names_are_completed_by_keys_and_by_clicks(page: Any) -> None:
    page.type("#subject", "PERSON_12")
    page.until("document.querySelector('#subject-names li')?.innerText === 'person_12'")
    offered = page.texts("#subject-names li")
    assert all("person_12" in name for name in offered)
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter")
    assert page.evaluate("document.querySelector('#subject').value") == offered[1]
    page.type("#predicate", "sin")
    page.until("document.querySelector('#predicate-names li')?.innerText === 'cousin_of'")
    page.click("#predicate-names li")
    assert page.evaluate("document.querySelector('#predicate').value") == "cousin_of"
    assert not page.text("#predicate-names")
    page.press("Enter")
    page.until(f"document.querySelector('{ROWS}')")


def test_answers_are_ranked_with_probability_interval_and_known_facts(
    page: Any, address: str, fact: dict[str, Any]
) -> None:
    ask(page, subject=fact["subject"], predicate="cousin_of", top="300")
    page.until(f"document.querySelector('{ROWS}')")
    query = {"subject": fact["subject"], "predicate": "cousin_of", "top": "300"}
    expected = requests.get(f"{address}/answers", params=query, timeout=20).json()["answers"]
    assert page.texts(f"{ROWS} .link") == [answer["object"] for answer in expected]
    first = page.texts(f"{ROWS}:first-child td")
    assert first[2] == percent(page, expected[0]["probability"])
    assert first[3] == f"{percent(page, expected[0]['low'])} to {percent(page, expected[0]['high'])}"
    marked = [place for place, row in enumerate(page.texts(ROWS)) if "known fact" in row]
    assert marked == [place for place, answer in enumerate(expected) if answer["known"]]
    assert marked
    assert "base rate 0.5" in page.text("#model")
    assert "not about all answers to the query" in page.text("#about")


def test_stated_answers_are_about_the_missing_facts_and_so_is_their_explanation(
    page: Any, address: str, fact: dict[str, Any]
) -> None:
    query = {"subject": fact["subject"], "predicate": "cousin_of", "top": "99"}
    done = requests.get(f"{address}/answers", params=query | {"base_rate": "0.01"}, timeout=240).json()
    page.open(
        f"{address}/?subject={fact['subject']}&predicate=cousin_of&top=99&base_rate=0.01"
    )  # it holds the question
    page.until("document.querySelector('#model').innerText.includes('base rate 0.01')")
    answers = done["answers"]
    assert page.texts(f"{ROWS}:first-child td")[2] == percent(page, answers[0]["probability"])
    for sentence in done["about"]:
        assert sentence in page.text("#about")
    assert "are expected to be true (95 % interval:" in page.text("#about")
    page.click(f"{ROWS} .link")
    page.until("document.querySelector('.why')")
    assert done["about"][0] in page.texts(".why li")
    triple = {name: answers[0][name] for name in ("subject", "predicate", "object")}
    page.open(f"{address}/?{'&'.join(f'{name}={text}' for name, text in triple.items())}&completeness=0.8")
    page.until("document.querySelector('.why')")
    assert "true by the stated completeness 0.8" in page.text("#about")


def test_a_click_explains_an_answer(page: Any, address: str) -> None:
    ask(page, object="person_1", predicate="cousin_of")
    page.until(f"document.querySelector('{ROWS}')")
    subject = page.text(f"{ROWS} .link")
    page.click(f"{ROWS} .link")
    page.until("document.querySelector('.why')")
    triple = {"subject": subject, "predicate": "cousin_of", "object": "person_1"}
    found = requests.get(f"{address}/explain", params=triple, timeout=20).json()
    assert page.texts(".why li") == found["sentences"]
    rates = [row.split("\t")[1] for row in page.texts(".why tbody tr")]
    assert rates == [percent(page, rate["probability"]) for rate in found["at_base_rates"]]
    curve = page.evaluate("document.querySelector('.why svg polyline').points.length")
    assert curve == len(found["curve"]["scores"])
    page.click(f"{ROWS} .link")
    page.until("!document.querySelector('.why')")


def test_a_whole_fact_is_answered_and_explained(page: Any, address: str, fact: dict[str, Any]) -> None:
    ask(page, **{name: fact[name] for name in ("subject", "predicate", "object")}, rate="0.2")
    page.until("document.querySelector('.why')")
    [row] = page.texts(ROWS)
    body = {"triples": [{name: fact[name] for name in ("subject", "predicate", "object")}], "base_rate": 0.2}
    [expected] = requests.post(f"{address}/predict", json=body, timeout=20).json()["answers"]
    assert percent(page, expected["probability"]) in row
    assert "known fact" in row


@pytest.mark.parametrize("ending", ["tsv", "csv"])
def test_an_uploaded_file_is_downloaded_with_probabilities(
    page: Any, browser: Any, fact: dict[str, Any], tmp_path: Path, ending: str
) -> None:
    rows = pd.DataFrame([{name: fact[name] for name in ("subject", "predicate", "object")}] * 3)
    rows.loc[2, "subject"] = "nobody"
    source, folder = tmp_path / f"mine.{ending}", tmp_path / "downloads"
    rows.to_csv(source, index=False, sep="\t" if ending == "tsv" else ",")
    browser.download_to(folder)
    page.upload("#file", source)
    page.click("#batch button")
    page.until("document.querySelector('#done').innerText.includes('downloads')")
    target, end = folder / f"answers.{ending}", time.monotonic() + 20
    while not (target.exists() and target.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    answers = pd.read_csv(target, sep=None, engine="python")
    assert answers["probability"].tolist()[:2] == [fact["probability"]] * 2
    assert answers["reason"].tolist()[2] == "unknown subject"


def test_bad_input_shows_one_sentence(page: Any, tmp_path: Path) -> None:
    ask(page, subject="nobody", predicate="cousin_of")
    page.until("document.querySelector('#error').innerText")
    assert page.text("#error").startswith("the graph family has no entity 'nobody'")
    ask(page, subject="", object="")
    page.until("document.querySelector('#error').innerText.startsWith('subject and object: give one of them')")
    ask(page, subject="person_1", rate="5")
    page.until("document.querySelector('#error').innerText.startsWith('base_rate is 5: it must be below 1')")
    ask(page, rate="")
    page.until(f"document.querySelector('{ROWS}')")
    assert not page.text("#error")
    faulty = tmp_path / "faulty.csv"
    faulty.write_text("subject,predicate,object\na,b\n", encoding="utf-8")
    page.upload("#file", faulty)
    page.click("#batch button")
    page.until("document.querySelector('#fault').innerText === 'candidates.csv, line 2: 2 columns: it must have 3'")


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_nothing_is_wider_than_the_screen(page: Any, address: str, fact: dict[str, Any], size: tuple[int, int]) -> None:
    page.resize(*size)
    ask(page, subject=fact["subject"], predicate="cousin_of", top="300")
    page.until(f"document.querySelector('{ROWS} .badge')")
    page.click(f"{ROWS} .link")
    page.until("document.querySelector('.why')")
    assert not page.evaluate(SIDEWAYS)
    page.type("#object", "person")
    page.until("document.querySelector('#object-names li')")
    assert not page.evaluate(SIDEWAYS)
    page.open(f"{address}/docs")
    page.until("document.querySelector('section')")
    assert not page.evaluate(SIDEWAYS)


def test_the_page_of_the_api_needs_no_other_host(page: Any, address: str) -> None:
    page.open(f"{address}/docs")
    page.until("document.querySelectorAll('section').length === 6")
    assert page.texts("h2") == [
        *("POST /predict", "GET /answers", "GET /explain", "GET /names", "POST /file", "GET /health")
    ]
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded == [f"{address}/openapi.json"]
