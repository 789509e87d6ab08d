"""``docs/operations.md`` knows every setting, limit and error there is, and no others."""

import re
from pathlib import Path

from durable_adk import errors
from durable_adk.settings import Limits, Settings

TEXT = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
GROUPS = {"DurableAdkError", "CallerError", "TransientError"}
"""What nobody is told of, but for what is below it."""


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]


def named(heading: str, pattern: str) -> set[str]:
    """What the first cells name."""
    return {hit for cells in rows(heading) for hit in re.findall(pattern, cells[0])}


def test_every_setting_has_its_row() -> None:
    """Each with its default and a reason to change it; logs are set up by two variables more."""
    expected = {f"DURABLE_ADK_{name.upper()}" for name in Settings.model_fields}
    logs = {"DURABLE_ADK_LOG", "DURABLE_ADK_LOG_LEVEL"}
    assert named("Settings", r"`(DURABLE_ADK_\w+)`") == expected | logs


def test_every_limit_has_its_row_and_its_default() -> None:
    """The numbers are those of the code."""
    limits = {cells[0].strip(): cells[1] for cells in rows("Settings") if "DURABLE" not in cells[0]}
    assert {hit for cell in limits for hit in re.findall(r"`(\w+)`", cell)} == set(
        Limits.model_fields
    )
    numbers = {
        name: str(field.default).removesuffix(".0") for name, field in Limits.model_fields.items()
    }
    for cell, shown in limits.items():
        digits = shown.replace(",", "").replace(" MB", "000000")
        assert re.findall(r"\d+", digits) == [
            numbers[name] for name in re.findall(r"`(\w+)`", cell)
        ]


def test_every_error_has_its_row() -> None:
    """S23: whoever meets one finds whose it is, and what to do."""
    assert named("What errors mean", r"`(\w+Error)`") == errors.CLASSES.keys() - GROUPS
