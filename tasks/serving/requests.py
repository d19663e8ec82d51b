"""The types of requests to the server, and one sentence for each invalid one."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import pyarrow as pa
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from kgcore.answer.answers import Answers, table_of
from kgcore.config import PredictConfig
from kgcore.config.calibrate import share_of
from kgcore.errors import InputError

MOST_TRIPLES = MOST_ROWS = 100_000  # of a request to /predict
MOST_ANSWERS = 1_000  # of a request to /answers
MOST_NAMES = 100  # of a request to /names
MOST_KEYS = 20  # of an object

BaseRate = Annotated[float | None, Field(gt=0, lt=1, description="share of true triples that the answers assume")]
MissingRate = Annotated[float | None, Field(gt=0, lt=1, description="share of true ones among the missing facts")]


def _is_share(text: str) -> str:
    """Return the text. Raises ValueError if it is no share and no interval; a request must not name a file."""
    try:
        share = share_of(text) if text else (0.5,)
    except InputError:
        share = None
    if share is None:
        raise ValueError("it must be above 0 and below 1, or LOW:HIGH, such as 0.7:0.9")
    return text


Completeness = Annotated[
    str, AfterValidator(_is_share), Field(description="share of the true facts that the graph knows, or LOW:HIGH")
]
Threshold = Annotated[float, Field(ge=0, le=1, description="a triple with a probability above it counts as true")]
Asked = TypeVar("Asked", bound=BaseModel)
AtLeast = Annotated[int, Field(ge=0, description="fewest calibration triples of a predicate, true and false each")]


class FewKeys(BaseModel):
    """An object that is refused if it has many keys: pydantic would make an error of a kilobyte for each."""

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > MOST_KEYS:
            unknown = next(key for key in value if key not in cls.model_fields)
            raise PydanticCustomError("unknown_key", "{key} is unknown", {"key": str(unknown)[:60]})
        return value


class Triple(FewKeys):
    """A candidate triple of names."""

    model_config = ConfigDict(extra="forbid", strict=True)
    subject: str
    predicate: str
    object: str


class Conditions(BaseModel):
    """The conditions of a question."""

    model_config = ConfigDict(extra="forbid")
    base_rate: BaseRate = None
    completeness: Completeness = ""
    threshold: Threshold = PredictConfig().threshold
    at_least: AtLeast = PredictConfig().at_least

    def under(self, answers: Answers) -> Answers:
        """Return the answers under these conditions."""
        return answers.under(self.base_rate, self.threshold, self.at_least)


class PredictRequest(FewKeys, Conditions):
    """A question about some triples."""

    model_config = ConfigDict(strict=True)
    triples: Annotated[
        list[Triple], FailFast(), Field(min_length=1, max_length=MOST_TRIPLES, description="candidates, by name")
    ]

    @property
    def names(self) -> pa.Table:
        """The triples as a table that `Answers.table` accepts."""
        return table_of([(triple.subject, triple.predicate, triple.object) for triple in self.triples])


class AnswersQuery(Conditions):
    """A question with an open side: (subject, predicate, ?) or (?, predicate, object)."""

    base_rate: MissingRate = None
    predicate: Annotated[str, Field(description="predicate of the query")]
    subject: Annotated[str, Field(description="subject, if the objects are ranked")] = ""
    object: Annotated[str, Field(description="object, if the subjects are ranked")] = ""
    top: Annotated[int, Field(ge=1, le=MOST_ANSWERS, description="number of answers")] = 10


class NoQuery(BaseModel):
    """An address without parameters."""

    model_config = ConfigDict(extra="forbid")


class ExplainQuery(NoQuery):
    """A triple whose probability is explained."""

    subject: str
    predicate: str
    object: str
    base_rate: BaseRate = None
    completeness: Completeness = ""
    missing: Annotated[bool, Field(description="explain the probability of `answers`, about the missing facts")] = False


class NamesQuery(NoQuery):
    """A question for names that contain a text."""

    kind: Annotated[str, Field(pattern="^(entity|predicate)$", description="what the names are names of")]
    text: Annotated[str, Field(description="text that a name contains, in upper or lower case")] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_NAMES, description="most names")] = 20


class FileQuery(Conditions):
    """The format of a file of candidates, and of the file of answers."""

    format: Annotated[str, Field(pattern="^(tsv|csv|parquet)$", description="format of both files")]


class ScoreRow(FewKeys):
    """A score, and its relation if the calibrator has a map for each relation."""

    model_config = ConfigDict(extra="forbid", strict=True)
    score: Annotated[float, Field(allow_inf_nan=False, description="score; a higher one means a more plausible row")]
    relation: Annotated[str | None, Field(description="relation of the row")] = None


class PredictScoresRequest(FewKeys):
    """A question about some scores."""

    model_config = ConfigDict(extra="forbid", strict=True)
    rows: Annotated[list[ScoreRow], FailFast(), Field(min_length=1, max_length=MOST_ROWS, description="scores")]
    base_rate: BaseRate = None
    scorer: Annotated[str | None, Field(description="scorer of the scores: it must be that of the calibrator")] = None


class ScoreFileQuery(BaseModel):
    """The format of a file of scores, and of the file of answers, and the names of its columns."""

    model_config = ConfigDict(extra="forbid")
    format: Annotated[str, Field(pattern="^(tsv|csv|parquet)$", description="format of both files")]
    score: Annotated[str, Field(description="column with the scores")] = "score"
    relation: Annotated[str, Field(description="column with the relations")] = "relation"
    base_rate: BaseRate = None


def read_body(body: bytes, kind: type[Asked]) -> Asked:
    """Read the body of a request, a JSON object of this kind. Raises RequestValidationError if it is invalid."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in faults]) from error


def sentence(error: RequestValidationError) -> tuple[int, str]:
    """Return the status and one sentence for an invalid request: 400 if the body is not JSON, 422 otherwise."""
    first = error.errors()[0]
    where = _place(first["loc"])
    if first["type"] == "json_invalid":
        if not first["input"].strip():
            return 422, "the body is empty: it must be a JSON object"
        return 400, f"the body is not JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return 422, f"{where} is missing"
    if first["type"] == "unknown_key":
        return 422, f"{_place((*first['loc'], first['ctx']['key']))} is unknown: leave it out"
    if first["type"] == "extra_forbidden":
        return 422, f"{where} is unknown: leave it out"
    return 422, f"{where or 'the body'} is {_value(first['input'], first['loc'][0] == 'body')}: {_rule(first)}"


def _place(location: Sequence[str | int]) -> str:
    """Write the place of a value in a request: `triples[3].subject`."""
    text = ""
    for step in location[1:]:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _value(value: object, is_json: bool) -> str:
    """Write a value of a request, shortened; `is_json`: in its body."""
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, dict):
        return "an object"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str) and is_json:
        return json.dumps(value[:60], ensure_ascii=False)
    return str(value)[:60] or "empty"


def _rule(error: Mapping[str, Any]) -> str:
    """Return what would be right."""
    limits, things = error.get("ctx", {}), str(error["loc"][-1])
    rules = {
        "string_type": "it must be text",
        "too_short": f"it must have at least one {things.removesuffix('s')}",
        "too_long": f"it must have at most {limits.get('max_length', 0):,} {things}",
        "greater_than": f"it must be above {limits.get('gt')}",
        "greater_than_equal": f"it must be at least {limits.get('ge')}",
        "less_than": f"it must be below {limits.get('lt')}",
        "less_than_equal": f"it must be at most {limits.get('le')}",
        "string_pattern_mismatch": "it must be one of "
        + str(limits.get("pattern", "")).strip("^$()").replace("|", ", "),
        "model_type": "it must be a JSON object",
        "list_type": "it must be a list",
        **dict.fromkeys(("float_parsing", "float_type"), "it must be a number"),
        "bool_parsing": "it must be true or false",
        "finite_number": "it must be a finite number",
        **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "it must be a whole number"),
    }
    if error["type"] == "value_error":
        return str(limits["error"])
    return rules.get(error["type"], str(error["msg"]))
