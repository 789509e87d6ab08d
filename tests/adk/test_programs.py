"""What docs/use/adk-compatibility.md says of both, and no conversation shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.adk.google_adk import GoogleAdk
from tests.adk.programs import PROGRAMS


@pytest.mark.parametrize(
    ("program", "ours", "adks"),
    [
        ("no_model", "AgentDefinitionError", "gemini-3.5-flash"),
        ("cached_contexts", False, True),
        ("chunks_that_nobody_asked_for", 0, 1),
        ("classes_of_contents", "Content", "UserContent"),
        ("a_close_that_is_cancelled", True, False),
        (
            "a_run_that_is_cancelled",
            {"stored": ["INVOCATION_ABORTED"], "seen": [None]},
            {"stored": [], "seen": [None]},
        ),
        ("debugging", ["user > hi", "a > word"], ["a > word"]),
        ("ends_of_agents", 0, 1),
    ],
)
async def test_a_program_comes_to_what_is_declared(
    program: str, ours: Any, adks: Any, google_adk: GoogleAdk, tmp_path: Path
) -> None:
    """Here and with google-adk, by the same lines."""
    assert await PROGRAMS[program](tmp_path) == ours
    assert google_adk.ask(program=program, folder=str(tmp_path)) == adks


async def test_each_has_its_own_folders_of_artifacts(google_adk: GoogleAdk, tmp_path: Path) -> None:
    """Neither finds what the other has saved, and both find their own."""
    for _ in range(2):
        theirs = google_adk.ask(program="files_of_artifacts", folder=str(tmp_path / "theirs"))
    assert theirs == ["a.txt"]
    files = PROGRAMS["files_of_artifacts"]
    assert await files(tmp_path / "theirs") == []
    assert [await files(tmp_path / "ours") for _ in range(2)] == [[], ["a.txt"]]
    assert google_adk.ask(program="files_of_artifacts", folder=str(tmp_path / "ours")) == []
