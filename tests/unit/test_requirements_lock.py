"""The versions that are installed where nothing may be installed that nobody has looked at."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "requirements.lock").read_text()
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = DECLARED["project"], DECLARED["build-system"]["requires"]
ASKED = [
    Requirement(line)
    for line in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values(), BUILD)
    if not line.startswith(PROJECT["name"])  # an extra that has another one in it
]
ENTRIES = [entry.replace("\\\n", " ") for entry in re.split(r"\n(?=\S)", TEXT.strip())]
PINS = [Requirement(entry.partition("--hash")[0].strip()) for entry in ENTRIES]


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: one.name)
def test_what_the_project_needs_is_pinned_within_the_tested_range(asked: Requirement) -> None:
    """S21: for each extra too, on every system."""
    pins = [pin for pin in PINS if canonicalize_name(pin.name) == canonicalize_name(asked.name)]
    assert pins
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert exact.version in asked.specifier


def test_every_file_has_a_hash() -> None:
    """S21: whatever a registry serves in its place is refused."""
    assert len(ENTRIES) > len(ASKED)
    for entry in ENTRIES:
        assert re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry


def test_the_image_is_built_with_what_is_pinned() -> None:
    """S21: nothing is fetched for the build besides."""
    assert DECLARED["dependency-groups"]["build"] == BUILD
    assert "--no-build-isolation ." in (ROOT / "Dockerfile").read_text()


def test_no_registry_is_named() -> None:
    """It works with whatever registry the machine uses."""
    assert "://" not in TEXT
    assert "index-url" not in TEXT
