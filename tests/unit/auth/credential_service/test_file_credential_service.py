"""Files of credentials: private, whole, and telling nothing by their names."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from urllib.parse import urlsplit

import pytest

from durable_adk.auth import AuthCredential
from durable_adk.auth.credential_service import FileCredentialService
from durable_adk.errors import InvalidRequestError, StoreUnavailableError

PLACE = {"app_name": "app", "user_id": "canary-user", "key": "canary-key"}


def key(text: str) -> AuthCredential:
    """An API key."""
    return AuthCredential(auth_type="apiKey", api_key=text)


@pytest.fixture
def service(tmp_path):
    """An empty service."""
    return FileCredentialService(tmp_path / "a" / "credentials")


def files(service: FileCredentialService) -> list[Path]:
    """What is in the folder."""
    return sorted(one for one in root(service).rglob("*") if one.is_file())


def root(service: FileCredentialService) -> Path:
    """The folder."""
    return Path(urlsplit(service._objects.uri).path)


async def test_only_the_owner_may_read(service):
    """The folder is 0700 and a file 0600, whatever the umask; names tell no user and no key."""
    before = os.umask(0)
    try:
        await service.save(**PLACE, credential=key("k"))
    finally:
        os.umask(before)
    [path] = files(service)
    assert path.stat().st_mode & 0o777 == 0o600
    assert root(service).stat().st_mode & 0o777 == 0o700
    assert "canary" not in path.name


async def test_another_object_finds_them(service):
    """What one process stored another one reads."""
    await service.save(**PLACE, credential=key("k"))
    assert await FileCredentialService(root(service)).load(**PLACE) == key("k")


def test_a_folder_that_others_may_enter_is_refused(tmp_path):
    """Nothing is written where it could be read by others."""
    tmp_path.chmod(0o755)
    with pytest.raises(InvalidRequestError, match="chmod 700"):
        FileCredentialService(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequestError, match="no folder"):
        FileCredentialService(tmp_path / "file")


async def test_a_failed_save_leaves_the_old_one(service, monkeypatch):
    """A save that cannot be finished leaves what was there, and no draft."""
    await service.save(**PLACE, credential=key("old"))

    def full(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailableError, match="No space"):
        await service.save(**PLACE, credential=key("new"))
    assert await service.load(**PLACE) == key("old")
    assert len(files(service)) == 1


async def test_readers_never_see_half_a_file(service):
    """While credentials are replaced, every read gets one of them."""
    keys = [key(str(i) * 20_000) for i in range(8)]
    await service.save(**PLACE, credential=keys[0])
    saves = [service.save(**PLACE, credential=item) for item in keys]
    reads = [service.load(**PLACE) for _ in range(40)]
    found = (await asyncio.gather(*saves, *reads))[len(saves) :]
    assert all(item in keys for item in found)


async def test_a_broken_file_is_named_and_not_shown(service):
    """A file that holds no credential is refused by its name."""
    await service.save(**PLACE, credential=key("k"))
    [path] = files(service)
    path.write_text('{"apiKey": "canary-secret"')
    with pytest.raises(InvalidRequestError, match="delete it") as caught:
        await service.load(**PLACE)
    assert path.name in str(caught.value)
    assert "canary-secret" not in str(caught.value) + str(caught.value.__cause__)


def test_several_may_make_the_folder_at_once(tmp_path):
    """Workers that start on a new volume: none of them fails since another was first."""
    ready = Barrier(8)

    def start(number: int) -> None:
        root = tmp_path / str(number) / "credentials"
        ready.wait()
        FileCredentialService(root)

    with ThreadPoolExecutor(8) as workers:
        for number in range(100):
            list(workers.map(start, [number] * 8))


async def test_no_link_leads_out_of_the_folder(service, tmp_path):
    """A file that was put there as a link is not read, whoever owns what it leads to."""
    await service.save(**PLACE, credential=key("k"))
    [path] = files(service)
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(StoreUnavailableError):
        await service.load(**PLACE)
