"""Blobs in a bucket."""

import asyncio

import pytest

from durable_adk.errors import InvalidRequestError, StoreUnavailableError
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.folder_objects import FolderObjects
from durable_adk.storage.location import objects_at
from durable_adk.storage.object_store import ObjectStore
from durable_adk.storage.payload_driver import blobs_at
from tests.support.s3 import S3
from tests.support.waiting import until

OWNER = "a" * 32
NAME = f"{OWNER}/{'b' * 64}"
IMPATIENT = {"max_retries": 0}


@pytest.fixture
def uri(s3: S3) -> str:
    """A place that nobody has used."""
    return s3.uri()


@pytest.fixture
def blobs(uri: str) -> Blobs:
    """An empty store."""
    made = Blobs(ObjectStore(uri, retry_config=IMPATIENT))
    made.key()
    return made


async def test_what_is_put_can_be_got_on_another_machine(blobs: Blobs, uri: str) -> None:
    """D16: putting it again changes nothing, and nothing else is there."""
    await blobs.put(NAME, b"one")
    await blobs.put(NAME, b"one")
    other = blobs_at(uri)
    assert await other.get(NAME) == b"one"
    with pytest.raises(KeyError):
        await other.get(NAME[:-1] + "c")
    assert [entry.path for entry in await ObjectStore(uri).list(OWNER)] == [NAME]


async def test_a_large_blob_is_whole(blobs: Blobs) -> None:
    """What goes up in parts is one blob."""
    data = bytes(range(256)) * 80_000
    await asyncio.gather(*(blobs.put(NAME, data) for _ in range(2)))
    assert await blobs.get(NAME) == data


async def test_a_store_that_is_away_is_an_outage_and_no_loss(blobs: Blobs, s3: S3) -> None:
    """F32: what does not respond may come back; a lost blob does not."""
    await blobs.put(NAME, b"one")
    s3.arm(down=True)
    with pytest.raises(StoreUnavailableError, match="does not respond"):
        await blobs.get(NAME)
    with pytest.raises(StoreUnavailableError, match="does not respond"):
        await blobs.put(NAME, b"one")
    s3.arm()
    assert await blobs.get(NAME) == b"one"


async def test_a_bucket_that_is_gone_is_an_outage_and_no_loss(s3: S3) -> None:
    """F32: it says of every blob that it is not found, as if it were lost."""
    gone = Blobs(ObjectStore("s3://no-such-bucket/x", retry_config=IMPATIENT))
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        await gone.get(NAME)
    with pytest.raises(StoreUnavailableError, match="no-such-bucket"):
        await gone.put(NAME, b"one")
    with pytest.raises(StoreUnavailableError, match="no-such-bucket"):
        gone.key()


async def test_all_machines_have_one_key(uri: str) -> None:
    """S5: whoever comes first makes it, within an event loop or without."""
    keys = await asyncio.gather(*(asyncio.to_thread(blobs_at(uri).key) for _ in range(8)))
    assert set(keys) == {blobs_at(uri).key()}
    assert len(keys[0]) == 32


def test_a_store_that_would_give_several_keys_is_refused(uri: str, s3: S3) -> None:
    """S5: without conditional puts the last one would win, and what others signed be forged."""
    s3.arm(ignores_conditions=True)
    with pytest.raises(InvalidRequestError, match="If-None-Match"):
        blobs_at(uri).key()


async def test_what_was_used_lately_has_not_expired(blobs: Blobs, uri: str) -> None:
    """I24: what is of no owner is not looked at, and stays."""
    store = ObjectStore(uri)
    await store.put("app-1/user/x", b"an artifact in the same place")
    await blobs.put(NAME, b"one")
    await blobs.put(NAME[:-1] + "c", b"two")
    assert await blobs.expired(60) == []
    assert await blobs.expired(-60) == [OWNER]
    assert {data async for data in blobs.of(OWNER)} == {b"one", b"two"}
    await blobs.remove(OWNER)
    assert await blobs.expired(-60) == []
    assert await store.get("app-1/user/x") is not None
    assert await store.get("key") is not None


async def test_storing_it_again_counts_as_use(tmp_path, blobs: Blobs, uri: str) -> None:
    """I24: a payload that is of use again is as young as a new one."""
    await blobs.put(NAME, b"one")
    before = (await ObjectStore(uri).list(OWNER))[0].modified

    async def is_younger() -> bool:
        await blobs.put(NAME, b"one")
        return (await ObjectStore(uri).list(OWNER))[0].modified > before

    await until(is_younger)  # the clock of a bucket counts seconds


def test_each_place_has_its_blobs(tmp_path, uri: str) -> None:
    """A folder has files, also as a uri, a bucket has objects, and another uri is refused."""
    assert isinstance(objects_at(tmp_path), FolderObjects)
    assert objects_at(f"file://{tmp_path}/a%20b").uri == (tmp_path / "a b").as_uri()
    assert isinstance(objects_at(uri), ObjectStore)
    with pytest.raises(InvalidRequestError, match="s3://"):
        blobs_at("ftp://host")
