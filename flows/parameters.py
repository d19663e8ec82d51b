"""The types of flow parameters that are not settings. Prefect makes forms from these types.

Prefect also checks values against them before it schedules a run. The patterns and choices are only in the JSON schema,
so a direct call skips Prefect's check and raises kgcal's own errors.
"""

from typing import Annotated

from pydantic import Field, WithJsonSchema

from kgcore.config.presets import CHOICES, PRESETS, WITHOUT_RACE
from kgcore.wings.reproduction.grid import LABELLED, TABLES, UNLABELLED
from tasks.tracking.record import LATEST

THREADS = "threads"
DEVICES = r"auto|cpu|cuda(?::[0-9]+)?"
RUNNERS = r"threads(?::([1-9][0-9]*))?|dask(?:://[^/:]+:[0-9]+)?"
RUN_ID = LATEST + r"|(?:[a-z]+:)?[0-9a-f]{32}|(?:runs|models):/.+"

Device = Annotated[str, Field(json_schema_extra={"pattern": f"^(?:{DEVICES})$"})]
Runner = Annotated[str, Field(json_schema_extra={"pattern": f"^(?:{RUNNERS})$"})]
RunId = Annotated[str, Field(json_schema_extra={"pattern": f"^(?:{RUN_ID})$"})]
Preset = Annotated[str, Field(json_schema_extra={"enum": [*PRESETS]})]
Members = Annotated[int, Field(json_schema_extra={"minimum": 0, "not": {"const": 1}})]
PresetOrNone = Annotated[str | None, WithJsonSchema({"enum": [*CHOICES, None]})]
PresetWithoutRace = Annotated[str | None, WithJsonSchema({"enum": [*WITHOUT_RACE, None]})]
Table = Annotated[str, Field(json_schema_extra={"enum": ["all", *TABLES]})]
PaperDataset = Annotated[str, Field(json_schema_extra={"enum": [*LABELLED, *UNLABELLED]})]
