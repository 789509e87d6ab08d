"""Payloads as people read them."""

import json
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    StorageDriverStoreContext,
    WorkflowSerializationContext as Workflow,
)

from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.errors import InvalidRequestError
from durable_adk.ops.codec_server import Decoder, decoding
from durable_adk.wire.converter import data_converter, encrypted, stored_in

OLD, NEW = Key.new("old"), Key.new("new")
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"canary-7c1d"')


def private(*keys: Key, converter: DataConverter = data_converter) -> DataConverter:
    """A converter that encrypts with the first key."""
    return encrypted(converter, EncryptionCodec(keys=KeyRing(keys)))


async def written(converter: DataConverter, workflow: str, namespace: str = "default") -> Payload:
    """The canary as it gets to Temporal."""
    bound = converter.with_context(Workflow(namespace, workflow))
    payloads = await bound.encode(["canary-7c1d"])
    assert b"canary" not in payloads[0].SerializeToString()
    return payloads[0]


def reasons(payloads: list[Payload]) -> list[str | None]:
    """Why each could not be read; None: it was."""
    values = [json.loads(payload.data) for payload in payloads]
    return [value["unreadable"] if isinstance(value, dict) else None for value in values]


async def test_payloads_of_all_workflows_and_keys_are_read() -> None:
    """D16: nobody says which workflow they are of; after a rotation both keys are there."""
    payloads = [await written(private(OLD), "v"), await written(private(NEW), "w")]
    decoded = await Decoder.of(private(NEW, OLD)).decode([*payloads, PLAIN], namespace="default")
    assert decoded.payloads == [PLAIN, PLAIN, PLAIN]
    assert decoded.unreadable == 0


async def test_what_cannot_be_read_says_why_and_spares_the_others() -> None:
    """S6: a key that is gone names itself, a payload that was changed does not pass for a value."""
    changed = await written(private(NEW), "w")
    changed.data = changed.data[:-1] + bytes([changed.data[-1] ^ 1])
    payloads = [await written(private(OLD), "w"), changed, await written(private(NEW), "w")]
    decoded = await Decoder.of(private(NEW)).decode(payloads)
    lost, forged, read = reasons(decoded.payloads)
    assert "key 'old', which this process lacks" in str(lost)
    assert "was changed" in str(forged)
    assert read is None
    assert decoded.unreadable == 2


async def test_another_namespaces_payloads_are_not_shown_as_this_ones() -> None:
    """S7: who looks at one namespace is not shown what was copied there from another."""
    payloads = [await written(private(NEW), "w", "theirs")]
    decoder = Decoder.of(private(NEW))
    (reason,) = reasons((await decoder.decode(payloads, namespace="ours")).payloads)
    assert "another workflow" in str(reason)
    assert (await decoder.decode(payloads, namespace="theirs")).payloads == [PLAIN]


@pytest.mark.parametrize("keys", [(), (NEW,)])
async def test_references_are_followed_or_left(tmp_path: Path, keys: tuple[Key, ...]) -> None:
    """D16: what is kept outside of Temporal is read from there, with keys or without."""
    converter = stored_in(tmp_path / "payloads", threshold=0)
    converter = private(*keys, converter=converter) if keys else converter
    reference = await written(converter, "w")
    decoder = Decoder.of(converter)
    assert (await decoder.decode([reference], fetch=False)).payloads == [reference]
    assert (await decoder.decode([reference, PLAIN])).payloads == [PLAIN, PLAIN]


async def test_a_forged_or_lost_reference_says_so(tmp_path: Path) -> None:
    """S5: the endpoint gives nothing that Temporal's writers could not have had by a true one."""
    converter = private(NEW, converter=stored_in(tmp_path / "payloads", threshold=0))
    reference = await written(converter, "w")
    forged, broken = Payload(), Payload()
    for made, data in (
        (forged, reference.data.replace(b'"code":"', b'"code":"0')),
        (broken, b"{" * 5000),
    ):
        made.CopyFrom(reference)
        made.data = data
    assert forged.data != reference.data
    for blob in (tmp_path / "payloads").glob("*/*"):
        blob.unlink()
    decoded = await Decoder.of(converter).decode([forged, reference, broken])
    first, second = reasons(decoded.payloads[:2])
    assert "forged" in str(first)
    assert "is lost" in str(second)
    assert decoded.payloads[2] == broken


async def test_a_store_that_is_away_says_so(tmp_path: Path) -> None:
    """F32: and the other payloads are there."""
    converter = private(NEW, converter=stored_in(tmp_path / "payloads", threshold=0))
    reference = await written(converter, "w")
    (tmp_path / "payloads").rename(tmp_path / "moved")
    decoded = await Decoder.of(converter).decode([reference, PLAIN])
    assert "does not exist" in str(reasons(decoded.payloads)[0])
    assert decoded.payloads[1] == PLAIN


async def test_one_answer_does_not_bring_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: what is fetched for an answer is bounded; a single payload is always returned."""
    monkeypatch.setattr(decoding, "MAX_FETCHED", 1000)
    driver = Decoder.of(stored_in(tmp_path, threshold=0)).driver
    assert driver is not None
    large = Payload(metadata={"encoding": b"json/plain"}, data=b'"%s"' % (b"x" * 2000))
    await driver.store(StorageDriverStoreContext(), [large])
    converter = stored_in(tmp_path, threshold=0).with_context(Workflow("default", "w"))
    references = await converter.encode(["x" * 2000, "y" * 2000])
    decoded = await Decoder.of(stored_in(tmp_path, threshold=0)).decode(references)
    assert reasons(decoded.payloads) == [
        None,
        "The previous payloads filled the response; request this one separately.",
    ]


def test_with_nothing_to_decode_there_is_no_decoder() -> None:
    """D16: it says what to set."""
    with pytest.raises(InvalidRequestError, match="DURABLE_ADK_ENCRYPTION_KEYS"):
        Decoder.of(data_converter)
