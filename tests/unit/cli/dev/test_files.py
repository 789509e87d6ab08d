"""The files whose changes `dev` waits for."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from durable_adk.cli.dev.files import WatchedFiles
from tests.support.waiting import PATIENCE


@pytest.fixture
def agent(tmp_path) -> Path:
    folder = tmp_path / "agent"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "agent.py").touch()
    return folder


async def told_of(changes: AsyncGenerator[list[Path]], *writes: Path) -> set[str]:
    """The names of the first changes that are reported while files are written repeatedly.

    What is written before the folders are watched is not reported.
    """
    told = asyncio.ensure_future(anext(changes))
    async with asyncio.timeout(PATIENCE):
        while not told.done():
            for file in writes:
                file.write_text("x = 1")
            await asyncio.wait([told], timeout=0.3)
    return {file.name for file in told.result()}


async def heard(watched: WatchedFiles, *writes: Path) -> set[str]:
    """The same of a new watch."""
    async with aclosing(watched.changes()) as changes:
        return await told_of(changes, *writes)


async def test_code_and_environment_count_and_what_agents_write_does_not(tmp_path, agent):
    """Python below an agent's folder and `.env` files do; data beside it, and caches, do not."""
    watched = WatchedFiles()
    watched.use([agent], [])
    ignored = [agent / "trips.jsonl", agent / "__pycache__" / "agent.py"]
    assert await heard(watched, *ignored, agent / "tools.py") == {"tools.py"}
    assert await heard(watched, agent / ".env") == {".env"}


async def test_what_agents_import_counts_and_its_neighbours_do_not(tmp_path, agent):
    """A module elsewhere is watched by its name."""
    (tmp_path / "shared").mkdir()
    module, other = tmp_path / "shared" / "rates.py", tmp_path / "shared" / "other.py"
    watched = WatchedFiles()
    watched.use([agent], [module])
    assert await heard(watched, other, module) == {"rates.py"}


async def test_a_new_folder_is_watched(agent):
    """Code in a folder that is made later counts."""
    watched = WatchedFiles()
    watched.use([agent], [])
    async with aclosing(watched.changes()) as changes:
        assert await told_of(changes, agent / "agent.py") == {"agent.py"}
        (agent / "tools").mkdir()
        while (names := await told_of(changes, agent / "tools" / "rates.py")) == {"agent.py"}:
            pass  # written more often than told
    assert names == {"rates.py"}


async def test_a_config_that_was_loaded_counts(agent):
    """An agent may be described in a `root_agent.yaml` alone."""
    watched = WatchedFiles()
    watched.use([agent], [agent / "root_agent.yaml"])
    assert await heard(watched, agent / "root_agent.yaml") == {"root_agent.yaml"}
