"""Payloads outside of Temporal: who gets them, and who does not."""

from collections.abc import AsyncIterable, Mapping

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
    WorkflowSerializationContext,
)

from durable_adk.storage.blobs import Blobs
from durable_adk.storage.memory_objects import MemoryObjects
from durable_adk.storage.payload_driver import OwnedStorage, PayloadDriver, owned_storage
from durable_adk.storage.refusal import ENCODING

KEY = b"k" * 32
LARGE = Payload(metadata={"encoding": b"json/plain"}, data=b'"' + b"x" * 1000 + b'"')


class CountingObjects(MemoryObjects):
    """A store in memory that counts."""

    puts = 0

    async def put(self, path: str, content: bytes | AsyncIterable[bytes]) -> None:
        self.puts += 1
        await super().put(path, content)


@pytest.fixture
async def objects() -> CountingObjects:
    """A store with nothing but a key."""
    made = CountingObjects()
    await made.create("key", KEY)
    return made


@pytest.fixture
def blobs(objects: CountingObjects) -> Blobs:
    """The same as a store of blobs."""
    return Blobs(objects)


async def kept(objects: CountingObjects) -> list[str]:
    """The names of the stored blobs."""
    return [one.path for one in await objects.list() if one.path != "key"]


def driver(blobs: Blobs, workflow_id: str = "w", key: bytes = KEY) -> PayloadDriver:
    """The driver of one workflow's payloads."""
    return of(owned_storage(blobs, key=key, threshold=100), workflow_id)


def of(storage: OwnedStorage, workflow_id: str, namespace: str = "n") -> PayloadDriver:
    """The driver as the SDK makes it for a workflow."""
    bound = storage.with_context(WorkflowSerializationContext(namespace, workflow_id))
    (made,) = bound.drivers
    assert isinstance(made, PayloadDriver)
    return made


async def store(driver: PayloadDriver, payload: Payload = LARGE) -> dict[str, str]:
    """The claim of a stored payload."""
    (claim,) = await driver.store(StorageDriverStoreContext(), [payload])
    return dict(claim.claim_data)


async def retrieve(driver: PayloadDriver, claim: Mapping[str, str]) -> Payload:
    """What a claim gives."""
    claims = [StorageDriverClaim(dict(claim))]
    (payload,) = await driver.retrieve(StorageDriverRetrieveContext(), claims)
    return payload


def refused(payload: Payload, reason: str) -> bool:
    """Whether there is nothing but the reason."""
    assert reason in payload.data.decode()
    return payload.metadata["encoding"] == ENCODING.encode()


async def test_an_owner_gets_its_payload_back_unchanged(blobs: Blobs) -> None:
    """D16: with its metadata, from another process."""
    claim = await store(driver(blobs))
    assert await retrieve(driver(blobs), claim) == LARGE


async def test_an_activity_is_of_its_workflow(blobs: Blobs) -> None:
    """S5: whatever the activity, the owner is the workflow."""
    storage = owned_storage(blobs, key=KEY, threshold=100)
    bound = storage.with_context(
        ActivitySerializationContext(
            namespace="n",
            activity_id="1",
            activity_type="t",
            activity_task_queue="q",
            workflow_id="w",
            workflow_type="Invocation",
            is_local=False,
        )
    )
    (made,) = bound.drivers
    assert isinstance(made, PayloadDriver)
    assert await retrieve(made, await store(driver(blobs))) == LARGE


@pytest.mark.parametrize("field", ["owner", "sha256", "code"])
@pytest.mark.parametrize("value", [None, "", "0" * 64, "../../key", "\u20ac"])
async def test_a_changed_claim_is_refused(blobs: Blobs, field: str, value: str | None) -> None:
    """S5: whatever is changed, and nothing is raised: that would wedge the workflow."""
    claim = await store(driver(blobs))
    if value is None:
        del claim[field]
    else:
        claim[field] = value
    assert refused(await retrieve(driver(blobs), claim), "forged")


async def test_a_claim_made_with_another_key_is_refused(blobs: Blobs) -> None:
    """S5: who reaches Temporal only has no key."""
    claim = await store(driver(blobs, key=b"o" * 32))
    assert refused(await retrieve(driver(blobs), claim), "forged")


@pytest.mark.parametrize(("workflow_id", "namespace"), [("v", "n"), ("w", "m"), ("", "n/w")])
async def test_a_true_claim_of_another_owner_is_refused(
    blobs: Blobs, workflow_id: str, namespace: str
) -> None:
    """S5: a reference copied out of another history gives nothing."""
    storage = owned_storage(blobs, key=KEY, threshold=100)
    claim = await store(of(storage, workflow_id, namespace))
    assert refused(await retrieve(driver(blobs), claim), "another workflow")


async def test_a_lost_or_changed_blob_is_refused(blobs: Blobs, objects: CountingObjects) -> None:
    """F32: the hash is verified."""
    claim = await store(driver(blobs))
    (name,) = await kept(objects)
    await objects.put(name, b"x")
    assert refused(await retrieve(driver(blobs), claim), "changed")
    await objects.delete([name])
    assert refused(await retrieve(driver(blobs), claim), "lost")


async def test_equal_payloads_of_one_owner_are_one_blob_and_of_two_are_two(
    blobs: Blobs, objects: CountingObjects
) -> None:
    """S5: nobody learns from a hash what others have said."""
    made = driver(blobs)
    claims = [await store(made), await store(made)]
    assert claims[0] == claims[1]
    assert (len(await kept(objects)), objects.puts) == (1, 1)
    await store(driver(blobs, "v"))
    assert len(await kept(objects)) == 2


@pytest.mark.parametrize(
    ("data", "threshold", "leaves"),
    [
        (b"x" * 200, 100, True),
        (b"x" * 50, 100, False),
        (b'"a"', 0, True),
        (b"17", 0, False),
        (b"", 0, False),
    ],
)
def test_the_threshold_says_what_leaves_temporal(
    blobs: Blobs, data: bytes, threshold: int, *, leaves: bool
) -> None:
    """D16: at zero all that says anything."""
    storage = owned_storage(blobs, key=KEY, threshold=threshold)
    bound = storage.with_context(WorkflowSerializationContext("n", "w"))
    payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
    assert (bound.driver_for(payload) is not None) == leaves


async def test_the_sdk_takes_the_storage_as_it_is(blobs: Blobs) -> None:
    """D16: a round through the SDK's own data converter, with its contexts."""
    storage = owned_storage(blobs, key=KEY, threshold=100)
    converter = DataConverter(external_storage=storage)
    one, other = (
        converter.with_context(WorkflowSerializationContext("n", name)) for name in ("w", "v")
    )
    payloads = await one.encode(["x" * 1000, "small"])
    assert [len(payload.data) < 500 for payload in payloads] == [True, True]
    assert await one.decode(payloads) == ["x" * 1000, "small"]
    with pytest.raises(KeyError, match="refused"):
        await other.decode(payloads)
