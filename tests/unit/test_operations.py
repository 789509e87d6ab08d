"""``docs/run/operations.md`` knows every setting, limit, time and error there is, and no others."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from durable_adk import errors
from durable_adk.client.connect import KEEP_ALIVE
from durable_adk.client.invocations import TASK_TIMEOUT
from durable_adk.errors import InvalidRequestError
from durable_adk.retrying import STORE_TIMEOUT
from durable_adk.sessions.sql.sqlite import BUSY_TIMEOUT
from durable_adk.settings import Limits, Settings
from durable_adk.sql import database
from durable_adk.worker import WorkerOptions, timing

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "run" / "operations.md").read_text()
FIXED = "### Fixed times"
GROUPS = {"DurableAdkError", "CallerError", "TransientError"}
"""What nobody is told of, but for what is below it."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables between a heading and the next one, of any level."""
    section = TEXT.split(f"\n{heading}\n")[1].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def named(heading: str, pattern: str) -> set[str]:
    """What the first cells name."""
    return {hit for cells in rows(heading) for hit in re.findall(pattern, cells[0])}


def shown(value: object) -> str:
    """A default as the tables write it."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
    if isinstance(value, str | bool):
        return f"`{value}`"
    if isinstance(value, Limits):
        return "see above"
    return f"{value:,}" if isinstance(value, int) else "none"


def test_every_setting_has_its_row() -> None:
    """Each with its default and a reason to change it; logs are set up by two variables more."""
    expected = {f"DURABLE_ADK_{name.upper()}" for name in Settings.model_fields}
    logs = {"DURABLE_ADK_LOG", "DURABLE_ADK_LOG_LEVEL"}
    assert named("## Settings", r"`(DURABLE_ADK_\w+)`") == expected | logs


def test_no_row_is_without_a_default_or_a_reason() -> None:
    """For all that can be set, and for what cannot be."""
    for heading in ("## Settings", "### Limits", "### Options of a worker", FIXED):
        assert [cells for cells in rows(heading) if not all(cells)] == []


def test_every_limit_has_its_row_and_its_default() -> None:
    """The numbers are those of the code."""
    limits = {cells[0]: cells[1] for cells in rows("### Limits")}
    assert {hit for cell in limits for hit in re.findall(r"`(\w+)`", cell)} == set(
        Limits.model_fields
    )
    numbers = {
        name: str(field.default).removesuffix(".0") for name, field in Limits.model_fields.items()
    }
    for cell, default in limits.items():
        digits = default.replace(",", "").replace(" MB", "000000")
        assert re.findall(r"\d+", digits) == [
            numbers[name] for name in re.findall(r"`(\w+)`", cell)
        ]


def test_every_option_of_a_worker_has_its_row_and_its_default() -> None:
    """What a program can say that starts workers itself, as `WorkerOptions` has it."""
    options = {cells[0]: cells[1] for cells in rows("### Options of a worker")}
    made = WorkerOptions(sandboxed=True)  # the default of tests is another one
    assert WorkerOptions.sandboxed
    assert options == {
        f"`{field.name}`": shown(getattr(made, field.name)) for field in fields(WorkerOptions)
    }


@pytest.mark.parametrize(
    ("name", "given"), [("max_concurrent", 0), ("max_concurrent_workflow_tasks", 1)]
)
def test_a_worker_that_could_run_nothing_is_refused(name: str, given: int) -> None:
    """Temporal's would start, and wait without a word."""
    options: dict[str, Any] = {name: given}
    with pytest.raises(InvalidRequestError, match=f"{name} is {given}; it must be at least"):
        WorkerOptions(**options)


def test_every_fixed_time_has_its_row() -> None:
    """What nobody can set is known all the same, and is what the code has."""
    store = {name: f"{value.removesuffix('s')} s" for name, value in database._SETTINGS.items()}
    del store["application_name"], store["synchronous_commit"]  # no times
    sticky = timing()["sticky_queue_schedule_to_start_timeout"]
    alive = (KEEP_ALIVE.interval_millis, KEEP_ALIVE.timeout_millis)
    assert {cells[0]: cells[1] for cells in rows(FIXED)} == {
        **{f"`{name}`": value for name, value in store.items()},
        "`timeout`, `pool_timeout`": f"{database._CONNECT:g} s",
        "`command_timeout`": f"{database._COMMAND:g} s",
        "`busy_timeout`": f"{BUSY_TIMEOUT:g} s",
        "`keep_alive_interval`, `keep_alive_timeout`": "; ".join(f"{n / 1000:g} s" for n in alive),
        "`sticky_queue_schedule_to_start_timeout`": shown(sticky),
        "`TASK_TIMEOUT`": shown(TASK_TIMEOUT),
        "`STORE_TIMEOUT`": shown(timedelta(seconds=STORE_TIMEOUT)),
    }


def test_every_key_of_temporals_dynamic_configuration_has_its_row() -> None:
    """D12: with the value that it has there, and a reason."""
    given = YAML(typ="safe").load(ROOT / "deploy" / "temporal-dynamic.yaml")
    cells = [cells for cells in rows("## docker-compose.yml") if "." in cells[0]]
    told = {key: value for names, value, _ in cells for key in re.findall(r"`([\w.]+)`", names)}
    assert told.keys() == given.keys()
    for key, [constrained] in given.items():
        value = constrained["value"]
        text = f"`{value}`".lower() if isinstance(value, bool) else f"{value}"
        assert told[key].replace(",", "").replace(" ", "") == text


def test_every_error_has_its_row() -> None:
    """S23: whoever meets one finds whose it is, and what to do."""
    assert named("## Errors", r"`(\w+Error)`") == errors.CLASSES.keys() - GROUPS
