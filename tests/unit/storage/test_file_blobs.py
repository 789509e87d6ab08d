"""Blobs as files."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from durable_adk.storage import FileBlobs

NAME = f"{'a' * 32}/{'b' * 64}"


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    """An empty store."""
    made = FileBlobs(tmp_path / "payloads")
    made.key()
    return made


async def test_what_is_put_can_be_got(blobs: FileBlobs) -> None:
    """Putting it again changes nothing, and nothing else is there."""
    await blobs.put(NAME, b"one")
    await blobs.put(NAME, b"one")
    assert await blobs.get(NAME) == b"one"
    with pytest.raises(KeyError):
        await blobs.get(NAME[:-1] + "c")
    assert [path.name for path in (blobs.folder / ("a" * 32)).iterdir()] == ["b" * 64]


async def test_many_at_once_put_one_whole_blob(blobs: FileBlobs) -> None:
    """F2: readers see all of it or nothing, and no half file stays behind."""
    await asyncio.gather(*(blobs.put(NAME, b"x" * 100_000) for _ in range(20)))
    assert await blobs.get(NAME) == b"x" * 100_000
    assert len(list((blobs.folder / ("a" * 32)).iterdir())) == 1


async def test_a_folder_that_is_gone_is_an_outage_and_no_loss(blobs: FileBlobs) -> None:
    """F32: a file system that is not mounted may come back; a lost blob does not."""
    await blobs.put(NAME, b"one")
    away = blobs.folder.rename(blobs.folder.parent / "away")
    with pytest.raises(OSError, match="does not exist"):
        await blobs.get(NAME)
    with pytest.raises(OSError, match="No such file"):
        await blobs.put(NAME, b"one")
    shutil.move(away, blobs.folder)
    assert await blobs.get(NAME) == b"one"


def test_all_processes_have_one_key(blobs: FileBlobs) -> None:
    """S5: whoever comes first makes it."""
    assert blobs.key() == FileBlobs(blobs.folder).key()
    assert len(blobs.key()) == 32
    assert [path.name for path in blobs.folder.iterdir()] == ["key"]


async def test_only_their_owner_may_read_them(blobs: FileBlobs) -> None:
    """S6: they are conversations."""
    await blobs.put(NAME, b"one")
    for path in (blobs.folder, blobs.folder / ("a" * 32)):
        assert path.stat().st_mode & 0o077 == 0
    for path in (blobs.folder / "key", blobs.folder / NAME):
        assert path.stat().st_mode & 0o077 == 0


async def test_what_was_used_lately_has_not_expired(blobs: FileBlobs) -> None:
    """I24: storing it again counts."""
    await blobs.put(NAME, b"one")
    folder = blobs.folder / ("a" * 32)
    os.utime(folder, (0, 0))
    assert await blobs.expired(60) == [folder.name]
    await blobs.put(NAME, b"one")
    assert await blobs.expired(60) == []
    assert [data async for data in blobs.of(folder.name)] == [b"one"]
    await blobs.remove(folder.name)
    with pytest.raises(KeyError):
        await blobs.get(NAME)
