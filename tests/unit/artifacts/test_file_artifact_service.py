"""What the artifact folder keeps when processes share it, are killed, or find it unusable."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from google.genai import types

from durable_adk.artifacts import FileArtifactService
from durable_adk.errors import StoreUnavailableError
from durable_adk.storage.folder_objects import FolderObjects

SCOPE = {"app_name": "app", "user_id": "user", "session_id": "session"}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "artifacts"


@pytest.fixture
def service(folder):
    return FileArtifactService(folder)


async def save(service, name, text="x", *, key=None):
    part = types.Part(text=text)
    return await service.save_artifact(**SCOPE, filename=name, artifact=part, save_key=key)


async def test_what_a_killed_save_left_is_removed(service, folder):
    """A file that nobody has been writing for an hour goes at the next save."""
    await save(service, "a")
    old, fresh = (folder / ".new" / name for name in ("old", "fresh"))
    for left in (old, fresh):
        left.write_bytes(b"half")
    os.utime(old, times=(time.time() - 4000,) * 2)
    assert await save(service, "a") == 1
    assert (old.exists(), fresh.exists()) == (False, True)


async def test_a_listing_is_of_one_moment(folder, monkeypatch):
    """A folder that is read in pieces while a name is deleted shows all versions or none."""
    store = FolderObjects(folder)
    for n in range(3):
        await store.create(f"a/{n}", b"")
    look = Path.iterdir

    def torn(self):
        monkeypatch.setattr(Path, "iterdir", look)
        before = [path for path in look(self) if path.name != "1"]  # of the first piece
        asyncio.run(store.create("a/deleted", b""))
        asyncio.run(store.delete(["a/1"]))
        return iter(before)

    monkeypatch.setattr(Path, "iterdir", torn)
    assert {entry.path for entry in await store.list("a")} == {"a/0", "a/2", "a/deleted"}


async def test_deleting_leaves_no_folder(service, folder):
    """S6: a folder's name begins with an id; those that are empty go with the last object."""
    await save(service, "a")
    whose = {"app_name": "app", "user_id": "user", "session_ids": []}
    assert await service.delete_user(**whose) == 1
    assert [path.name for path in folder.iterdir()] == [".new"]
    assert await save(service, "a") == 0


async def test_services_on_one_folder_see_the_same(service, folder):
    """Nothing is remembered in a process: another service sees each save at once."""
    other = FileArtifactService(str(folder))
    for n in range(3):
        assert await save(service, "a", str(n)) == 2 * n
        assert await save(other, "a", str(n)) == 2 * n + 1
    assert await service.list_artifact_keys(**SCOPE) == ["a"]


async def test_a_folder_that_fails_is_worth_waiting_for(tmp_path):
    """What the operating system refuses is a transient error, which steps retry."""
    (tmp_path / "file").write_text("in the way")
    service = FileArtifactService(tmp_path / "file" / "artifacts")
    with pytest.raises(StoreUnavailableError, match="is unavailable: Not a directory"):
        await save(service, "a")


async def test_long_names_of_many_bytes_fit(service):
    """Names longer than a file system's 255 bytes serve, and differ by their last letter."""
    names = ["漢" * 511 + last for last in "ab"]
    for name in names:
        assert await save(service, name, name[-1]) == 0
    assert await service.list_artifact_keys(**SCOPE) == names


async def test_files_of_others_in_the_folder_change_nothing(tmp_path: Path) -> None:
    """A file manager leaves its own in each folder that somebody has looked at."""
    service = FileArtifactService(tmp_path)
    part = types.Part(text="x")
    await service.save_artifact(**SCOPE, filename="a", artifact=part)
    for folder in [path for path in tmp_path.rglob("*") if path.is_dir()]:  # noqa: ASYNC240
        (folder / ".DS_Store").touch()
    assert await service.list_artifact_keys(**SCOPE) == ["a"]
    loaded = await service.load_artifact(**SCOPE, filename="a")
    assert loaded is not None
    assert loaded.text == "x"
    user = {name: SCOPE[name] for name in ("app_name", "user_id")}
    assert await service.delete_user(**user, session_ids=["session"]) == 1


async def test_a_folder_is_listed_while_others_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look finds new files; the second one is the last."""
    objects = FolderObjects(tmp_path)
    await objects.put("owner/first", b"x")
    looks = iter(range(5))
    listed = Path.iterdir

    def busy(folder: Path) -> list[Path]:
        (tmp_path / "owner" / str(next(looks))).touch()
        return list(listed(folder))

    monkeypatch.setattr(Path, "iterdir", busy)
    assert "owner/first" in [one.path for one in await objects.list("owner")]
