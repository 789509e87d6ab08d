"""The file in which `dev` stores its port and the apps that it serves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, Field, ValidationError

from durable_adk.errors import AlreadyExistsError
from durable_adk.retrying import Deadline
from durable_adk.storage.files import open_lock, try_lock

_FILE = "dev.json"
_LOCK_TIMEOUT = 2.0  # seconds for a `dev` that is stopping, or a process that only reads the file
_POLL = 0.05


class DevState(BaseModel):
    """The content of the file; the port is kept between starts."""

    port: int | None = None
    apps: list[str] = Field(default_factory=list[str])
    """The apps that are served while the file is locked."""


@dataclass
class DevFile:
    """The locked file of the `dev` that runs in a data folder."""

    path: Path
    state: DevState

    def write(self, **changes: object) -> None:
        """Write changes in place: the lock belongs to this very file."""
        self.state = self.state.model_copy(update=changes)
        self.path.write_text(self.state.model_dump_json())


@asynccontextmanager
async def claim(folder: Path) -> AsyncGenerator[DevFile]:
    """Lock the file of a data folder while `dev` runs.

    Raises:
        AlreadyExistsError: Another `dev` runs in the folder.
    """
    path, deadline = folder / _FILE, Deadline(_LOCK_TIMEOUT)
    with open_lock(path) as file:
        while not try_lock(file, shared=False):
            if deadline.left() < 0:
                raise AlreadyExistsError(
                    f"Another `durable-adk dev` runs with {folder}; stop it, name all agents in "
                    "one `dev`, or choose another folder with --data-dir."
                )
            await asyncio.sleep(_POLL)
        yield DevFile(path, _read(path))


def apps_of_dev(folder: Path) -> list[str]:
    """Return the apps that a running `dev` serves in a data folder; [] without one."""
    try:
        with (folder / _FILE).open("rb") as file:
            return [] if _unlocked(file) else _read(folder / _FILE).apps
    except FileNotFoundError:
        return []


def _unlocked(file: BinaryIO) -> bool:
    return try_lock(file, shared=True)


def _read(path: Path) -> DevState:
    try:
        return DevState.model_validate_json(path.read_bytes())
    except ValidationError:  # a new file, or one of another version
        return DevState()
