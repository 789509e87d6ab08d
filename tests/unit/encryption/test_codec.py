"""What is encrypted, and what is refused."""

from dataclasses import replace

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    NexusSerializationContext,
    WorkflowSerializationContext,
)
from temporalio.testing import ActivityEnvironment

from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.errors import EncryptionKeyError
from durable_adk.storage.refusal import ENCODING as REFUSED

CANARY = "canary-7c1d"
PLAIN = Payload(metadata={"encoding": b"json/plain", "more": b"x"}, data=f'"{CANARY}"'.encode())
OLD, NEW = Key.new("old"), Key.new("new")
OURS = WorkflowSerializationContext("default", "w")


def codec_with(*keys: Key, accepts_plain: bool = False) -> EncryptionCodec:
    """For workflow w."""
    return EncryptionCodec(keys=KeyRing(keys), accepts_plain=accepts_plain).with_context(OURS)


async def encrypted(codec: EncryptionCodec) -> Payload:
    """The canary."""
    (payload,) = await codec.encode([PLAIN])
    return payload


def refused(payload: Payload) -> str:
    """Why there is no value; fails if there is one."""
    assert payload.metadata["encoding"] == REFUSED.encode()
    assert CANARY.encode() not in payload.data
    return payload.data.decode()


async def test_a_payload_reads_back_and_is_another_one_each_time() -> None:
    """D16: with its metadata; only key id and owner are in the open."""
    codec = codec_with(NEW)
    first, second = await encrypted(codec), await encrypted(codec)
    assert first != second
    assert CANARY.encode() not in first.SerializeToString()
    assert dict(first.metadata) == {
        "encoding": b"binary/encrypted-aes-256-gcm-1",
        "encryption-key-id": b"new",
        "encryption-owner": b"default/w",
    }
    assert await codec.decode([first, second]) == [PLAIN, PLAIN]


async def test_after_rotation_the_old_is_read_and_the_new_key_writes() -> None:
    """S6."""
    before = await encrypted(codec_with(OLD))
    rotated = codec_with(NEW, OLD)
    assert await rotated.decode([before]) == [PLAIN]
    assert (await encrypted(rotated)).metadata["encryption-key-id"] == b"new"


async def test_a_key_that_is_not_here_is_named() -> None:
    """S6: it may be here later, so it is no refusal, which would end the run."""
    with pytest.raises(EncryptionKeyError, match=r"'old'.*DURABLE_ADK_ENCRYPTION_KEYS"):
        await codec_with(NEW).decode([await encrypted(codec_with(OLD))])


@pytest.mark.parametrize("place", range(5))
async def test_what_was_changed_is_refused(place: int) -> None:
    """S5: a byte of nonce, content or tag, nothing at all, and what is in the open."""
    payload = await encrypted(codec_with(NEW))
    data = bytearray(payload.data)
    if place < 3:
        data[(0, 20, -1)[place]] ^= 1
    payload.data = bytes(data) if place < 3 else b"" if place == 3 else payload.data
    if place == 4:  # the same secret by another name
        payload.metadata["encryption-key-id"] = b"alias"
    (read,) = await codec_with(NEW, Key("alias", NEW.secret)).decode([payload])
    assert "was changed" in refused(read)


async def test_what_belongs_to_another_workflow_is_refused() -> None:
    """S5: also if its owner is written anew, and whatever the other one's activity is."""
    codec = codec_with(NEW)
    others = [
        WorkflowSerializationContext("default", "other"),
        WorkflowSerializationContext("another", "w"),
    ]
    for other in others:
        payload = await encrypted(codec.with_context(other))
        (read,) = await codec.decode([payload])
        assert "another workflow" in refused(read)
        payload.metadata["encryption-owner"] = b"default/w"
        (read,) = await codec.decode([payload])
        assert "was changed" in refused(read)


async def test_the_firings_of_a_schedule_read_what_it_sends() -> None:
    """D18, S5: Temporal adds the time to its workflow id; nobody else's id begins like that."""
    payload = await encrypted(codec_with(NEW))
    for name, reads in [
        ("w-2026-11-22T07:46:00Z", True),
        ("w-2026-11-22T07:46:00Z.1", False),
        ("w-2", False),
        ("2w-2026-11-22T07:46:00Z", False),
    ]:
        context = WorkflowSerializationContext("default", name)
        (read,) = await codec_with(NEW).with_context(context).decode([payload])
        assert (read == PLAIN) is reads, name


async def test_a_workflow_and_its_activities_read_each_other() -> None:
    """D16: the SDK names the workflow to both; who knows none believes what is authenticated."""
    payload = await encrypted(codec_with(NEW))
    context = ActivitySerializationContext("default", "7", "t", "q", "w", "W", is_local=False)
    free = EncryptionCodec(keys=KeyRing([NEW]))
    nexus = free.with_context(NexusSerializationContext("e", "s", "o"))
    for codec in (free.with_context(context), free, nexus, replace(free, namespace="default")):
        assert await codec.decode([payload]) == [PLAIN]
    (read,) = await replace(free, namespace="def").decode([payload])
    assert "another workflow" in refused(read)


async def test_plain_payloads_are_refused_unless_they_are_accepted() -> None:
    """S3: whoever reaches Temporal and has no key cannot speak to an invocation."""
    (read,) = await codec_with(NEW).decode([PLAIN])
    assert "DURABLE_ADK_ENCRYPTION_ACCEPTS_PLAIN" in refused(read)
    assert await codec_with(NEW, accepts_plain=True).decode([PLAIN]) == [PLAIN]


async def test_within_an_activity_the_same_payload_is_encrypted_once() -> None:
    """1g: what is stored while the activity lives is what the SDK reports of it afterwards."""
    codec = codec_with(NEW)

    async def twice() -> tuple[Payload, Payload, Payload]:
        first, again = await encrypted(codec), await encrypted(codec)
        other = WorkflowSerializationContext("default", "other")
        return first, again, await encrypted(codec.with_context(other))

    first, again, others = await ActivityEnvironment().run(twice)
    assert first == again
    assert first.data != others.data
    first, again, _ = await twice()
    assert first != again
