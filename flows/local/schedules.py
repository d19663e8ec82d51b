"""`kgcal schedule`: when the pipeline runs by itself for a data set.

A schedule belongs to the deployment DEPLOYMENT of a Prefect server, and has the data set as its parameter. `kgcal up`
and `prefect deploy` leave it as it is, so that one that was paused stays paused.
"""

import asyncio
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import DeploymentSchedule
from prefect.client.schemas.schedules import SCHEDULE_TYPES, CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.server.schemas.schedules import CronSchedule as ServerSchedule
from prefect.settings import PREFECT_API_URL
from pydantic import ValidationError

from flows.local.prefect_server import client_of
from flows.local.status import local_api
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError
from kgcore.measure.report.result import Result, ResultTable, table_of
from tasks.stages.prepare import findable

DEPLOYMENT = "pipeline/nightly"  # at most one run of it at a time
PREFIX = "kgcal-"  # of the slug of a schedule; the name of the data set follows


def change_schedule(
    dataset: str, cron: str = "", timezone: str = "", base_rate: float | None = None, action: str = ""
) -> Result:
    """Make, change or remove the schedule of a data set, unless `dataset` is ''. Return all schedules.

    cron       when the pipeline runs, such as `0 3 * * *`; '': as before
    timezone   of `cron`, such as Europe/Berlin; '': as before, and UTC in a new schedule
    base_rate  of the runs, in (0, 1); None: as before, and not stated in a new schedule
    action     pause, resume or remove; '': none

    Raises InputError if no server answers, for an unknown data set, and for a time or a base rate that cannot be.
    """
    api = PREFECT_API_URL.value() or local_api()
    if not api:
        raise InputError("schedules need a Prefect server: start one by `kgcal up`, or name yours in PREFECT_API_URL")
    calibrate = {} if base_rate is None else {"calibrate": CalibrateConfig(base_rate=base_rate).given()}
    with client_of(api) as client:
        deployment = _deployment(client)
        if dataset:
            name, place = findable(dataset)
            before = _schedules(client, deployment).get(name)
            zone = timezone or (_timezone(before) if before else "UTC")
            when = _when(cron, zone) if cron else None
            parameters = (before.parameters if before else {}) | {"prepare": {"dataset": place}} | calibrate
            if before is None and when:
                slug = f"{PREFIX}{name}"
                client.create_deployment_schedules(deployment, [(when, True)], parameters=parameters, slug=slug)
            elif before is None:
                raise InputError(f"{name} has no schedule: make one by `kgcal schedule {dataset} --cron '0 3 * * *'`")
            elif when:
                client.update_deployment_schedule(deployment, before.id, schedule=when, parameters=parameters)
            elif action == "remove":
                client.delete_deployment_schedule(deployment, before.id)
                return _listed(_schedules(client, deployment), f"the schedule of {name} is removed")
            elif action:  # an update without parameters would empty them
                active, same = action == "resume", before.parameters
                client.update_deployment_schedule(deployment, before.id, active=active, parameters=same)
        return _listed(_schedules(client, deployment))


def _deployment(client: SyncPrefectClient) -> UUID:
    try:
        return client.read_deployment_by_name(DEPLOYMENT).id
    except ObjectNotFound:
        raise InputError(f"the Prefect server has no deployment {DEPLOYMENT}: `kgcal up` creates it") from None


def _schedules(client: SyncPrefectClient, deployment: UUID) -> dict[str, DeploymentSchedule]:
    """Return name of a data set -> its schedule."""
    every = client.read_deployment_schedules(deployment)
    return {one.slug.removeprefix(PREFIX): one for one in every if one.slug and one.slug.startswith(PREFIX)}


def _when(cron: str, timezone: str) -> SCHEDULE_TYPES:
    try:
        return CronSchedule(cron=cron, timezone=timezone)
    except ValidationError as error:
        wrong = "timezone" if any("timezone" in fault["loc"] for fault in error.errors()) else "cron"
        right = {
            "cron": "five parts, minute, hour, day of the month, month and day of the week, such as '0 3 * * *'",
            "timezone": "a name such as UTC or Europe/Berlin",
        }[wrong]
        raise InputError(f"{wrong} is {timezone if wrong == 'timezone' else cron!r}: it must be {right}") from None


def _timezone(schedule: DeploymentSchedule) -> str:
    assert isinstance(schedule.schedule, CronSchedule)
    return schedule.schedule.timezone or "UTC"


def _next(cron: str, timezone: str) -> str:
    """Return when a schedule runs next, in its time zone: `2026-11-28 03:00`, or '' for never."""
    dates = asyncio.run(ServerSchedule(cron=cron, timezone=timezone).get_dates(1))
    return f"{dates[0]:%Y-%m-%d %H:%M}" if dates else ""


def _listed(schedules: dict[str, DeploymentSchedule], done: str = "") -> Result:
    """Return a table of the schedules, after a sentence about what was done; '': none."""

    def row(name: str, one: DeploymentSchedule) -> tuple[Any, ...]:
        assert isinstance(one.schedule, CronSchedule)
        parameters = one.parameters or {}
        given = parameters.get("calibrate", {}).get("base_rate", "")
        cron, zone, place = one.schedule.cron, _timezone(one), parameters.get("prepare", {}).get("dataset", "")
        state = ("active", _next(cron, zone)) if one.active else ("paused", "")
        return name, cron, zone, str(given), *state, place

    if not schedules:
        none = "no data set has a schedule: make one by `kgcal schedule ./mine --cron '0 3 * * *'`"
        return Result(title="Schedules", sentences=[done or none])
    head = ("data set", "cron", "timezone", "base rate", "state", "next run", "place")
    rows = table_of(head, [row(name, one) for name, one in sorted(schedules.items())])
    return Result(title="Schedules", sentences=[done] if done else [], tables=[ResultTable("", rows, head)])
