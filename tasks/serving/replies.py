"""The replies of the server to questions, as JSON."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
from fastapi.responses import Response
from pydantic_core import to_json

from kgcore.answer.answers import Answers
from kgcore.answer.population.lists import answers_to, as_sentence
from kgcore.answer.question import Question
from kgcore.errors import InputError
from kgcore.wings.external.calibrator import RELATION, SCORE, ScoreCalibrator
from kgcore.wings.external.tables import TableBlock
from tasks.jobs.find_model import FoundScores
from tasks.serving.model import Answerer
from tasks.serving.requests import AnswersQuery, PredictRequest, PredictScoresRequest, read_body


def ranked(now: Answerer, query: AnswersQuery) -> Response:
    """Rank the answers to a query with an open side."""
    question = Question.of_query(now.found.model.graph, query.subject, query.predicate, query.object)
    calibration = now.calibration(query.predicate, query.base_rate, query.completeness)
    conditions = now.answers.under(None, query.threshold, query.at_least)
    found = answers_to(question, conditions, calibration, query.top)
    answers = conditions if calibration is None else replace(conditions, model=calibration.model)
    return _response(now, answers, found.table, {"about": found.about, "true": found.count and asdict(found.count)})


def predicted(now: Answerer, request: PredictRequest) -> Response:
    """Answer triples."""
    answers, names = request.under(now.answers), request.names
    found = now.file_answer(answers, names, request.base_rate, request.completeness)
    table, answers = found.table(answers, names), replace(answers, model=found.model)
    return _response(now, answers, table, {"about": [as_sentence(found.about)]})


def predicted_together(asked: Sequence[tuple[Answerer, PredictRequest]]) -> list[Response]:
    """Answer small requests that state no completeness, each as `predicted` does, to the last bit.

    It joins requests under the same conditions to one table. No small request has a calibration of its own.
    """
    alike, responses = defaultdict[object, list[int]](list), dict[int, Response]()
    for place, (now, request) in enumerate(asked):
        alike[id(now), request.base_rate, request.threshold, request.at_least].append(place)
    for places in alike.values():
        now, first = asked[places[0]]
        answers, parts = first.under(now.answers), [asked[place][1].names for place in places]
        table, start = answers.table(pa.concat_tables(parts)), 0
        for place, names in zip(places, parts, strict=True):
            about = now.file_answer(answers, names, first.base_rate, "").about
            own, start = table.slice(start, len(names)), start + len(names)
            responses[place] = _response(now, answers, own, {"about": [as_sentence(about)]})
    return [responses[place] for place in range(len(asked))]


def _response(now: Answerer, answers: Answers, table: pa.Table, further: dict[str, object]) -> Response:
    body = {"model": described(now, answers), "threshold": answers.threshold, "answers": table.to_pylist()}
    return Response(to_json(body | further), media_type="application/json")


def described(now: Answerer, answers: Answers) -> dict[str, Any]:
    """Describe the model that answers."""
    return {
        "uri": now.found.uri,
        "dataset": now.found.dataset,
        "because": now.found.because,
        "calibrator": answers.model.label,
        "base_rate": answers.model.calibrator.base_rate,
        "base_rate_is": answers.model.calibrator.rate.origin,
    }


def predicted_scores(now: FoundScores, body: bytes) -> Response:
    """Give scores their probabilities."""
    request = read_body(body, PredictScoresRequest)
    calibrator = now.calibrator.at(request.base_rate)
    if request.scorer is not None:
        calibrator.check_scorer(request.scorer)
    relations = [row.relation for row in request.rows]
    if calibrator.by_relation and None in relations:
        where, name = f"rows[{relations.index(None)}].relation", calibrator.bound.name
        raise InputError(f"{where} is missing: the calibrator {name} has a map for each relation")
    columns = {SCORE: [row.score for row in request.rows], RELATION: pa.array(relations, pa.string())}
    table = calibrator.answer(TableBlock("rows", pa.table(columns), unit="", first=0))
    answered = {"model": described_scores(now, calibrator), "answers": table.to_pylist()}
    return Response(to_json(answered), media_type="application/json")


def described_scores(now: FoundScores, calibrator: ScoreCalibrator) -> dict[str, Any]:
    """Describe the calibrator of scores that answers."""
    return {
        "uri": now.uri,
        "scorer": calibrator.scorer,
        "scale": calibrator.scale,
        "calibrator": calibrator.bound.label,
        "relations": list(calibrator.relations) if calibrator.by_relation else [],
        "base_rate": calibrator.bound.base_rate,
        "base_rate_is": calibrator.bound.rate.origin,
    }
