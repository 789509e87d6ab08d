"""Blobs as files."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.payload_driver import blobs_at

NAME = f"{'a' * 32}/{'b' * 64}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the blobs are."""
    return tmp_path / "payloads"


@pytest.fixture
def blobs(folder: Path) -> Blobs:
    """An empty store."""
    made = blobs_at(folder)
    made.key()
    return made


async def test_what_is_put_can_be_got(blobs: Blobs, folder: Path) -> None:
    """Putting it again changes nothing, and nothing else is there."""
    await blobs.put(NAME, b"one")
    await blobs.put(NAME, b"one")
    assert await blobs.get(NAME) == b"one"
    with pytest.raises(KeyError):
        await blobs.get(NAME[:-1] + "c")
    assert [path.name for path in (folder / ("a" * 32)).iterdir()] == ["b" * 64]


async def test_many_at_once_put_one_whole_blob(blobs: Blobs, folder: Path) -> None:
    """F2: readers see all of it or nothing, and no half file stays behind."""
    await asyncio.gather(*(blobs.put(NAME, b"x" * 100_000) for _ in range(20)))
    assert await blobs.get(NAME) == b"x" * 100_000
    assert len(list((folder / ("a" * 32)).iterdir())) == 1


async def test_a_folder_that_is_gone_is_an_outage_and_no_loss(blobs: Blobs, folder: Path) -> None:
    """F32: a file system that is not mounted may come back; a lost blob does not."""
    await blobs.put(NAME, b"one")
    away = shutil.move(folder, folder.parent / "away")
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        await blobs.get(NAME)
    with pytest.raises(StoreUnavailableError, match="No such file"):
        await blobs.put(NAME, b"one")
    shutil.move(away, folder)
    assert await blobs.get(NAME) == b"one"


def test_all_processes_have_one_key(blobs: Blobs, folder: Path) -> None:
    """S5: whoever comes first makes it."""
    assert blobs.key() == blobs_at(folder).key()
    assert len(blobs.key()) == 32
    assert {path.name for path in folder.iterdir()} == {"key", ".new"}


async def test_only_their_owner_may_read_them(blobs: Blobs, folder: Path) -> None:
    """S6: they are conversations."""
    await blobs.put(NAME, b"one")
    for path in (folder, folder / ".new", folder / ("a" * 32)):
        assert path.stat().st_mode & 0o077 == 0
    for path in (folder / "key", folder / NAME):
        assert path.stat().st_mode & 0o077 == 0


async def test_what_was_used_lately_has_not_expired(blobs: Blobs, folder: Path) -> None:
    """I24: storing it again counts."""
    await blobs.put(NAME, b"one")
    owner = "a" * 32
    os.utime(folder / NAME, (0, 0))
    assert await blobs.expired(60) == [owner]
    await blobs.put(NAME, b"one")
    assert await blobs.expired(60) == []
    assert [data async for data in blobs.of(owner)] == [b"one"]
    await blobs.remove(owner)
    with pytest.raises(KeyError):
        await blobs.get(NAME)
