"""Messages to be delivered, when an end comes first, or too much at once (D7)."""

import asyncio
import uuid

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.errors import InvocationCancelledError, InvocationTerminatedError
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.sessions import SessionKey
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire.messages import workflow_id
from tests.conftest import MakeRunner
from tests.integration.test_large_places import noise
from tests.integration.test_steering_edges import KEY, gists, steered
from tests.support.gates import GATES, gate, listener, run, until_begun
from tests.support.scripts import USER, call, ensure_session
from tests.support.waiting import PATIENCE, until

MANY = 6

pytestmark = pytest.mark.parametrize("make_runner", ["temporal"], indirect=True)


@pytest.mark.thorough
async def test_large_messages_are_heard_one_after_the_other(make_runner: MakeRunner) -> None:
    """1c, I11: together they are more than a workflow task may report."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    await ensure_session(runner)
    first = run(runner, "one", invocation_id=f"f-{name}")
    await until_begun(name)
    others = [
        run(runner, noise(900_000), when_busy="steer", invocation_id=f"{number}-{name}")
        for number in range(MANY)
    ]
    told = {"invocation_id": f"f-{name}", "kind": "notified"}

    async def are_told() -> bool:
        return len(await runner.session_service.read_notes(KEY, **told)) == MANY

    await until(are_told)
    GATES[name].set()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(first, *others)
    said = await gists(runner)
    assert len([line for line in said if line.startswith("user text")]) == 1 + MANY
    assert len([line for line in said if line.startswith("a text")]) == 1


def two_gates(first: str, second: str) -> LlmAgent:
    """Waits at a gate, then at another one."""

    def reply(request: LlmRequest) -> types.Content | str:
        done = sum(1 for c in request.contents for p in c.parts if p.function_response)
        return [call("gate", who=first), call("gate", who=second), "done"][done]

    return LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[gate])


async def test_the_sender_of_a_heard_message_is_told_that_the_run_was_terminated(
    make_runner: MakeRunner, client: Client
) -> None:
    """I11: as whoever has started it; nobody waits for the session's next message."""
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    runner = await make_runner(two_gates(one, two))
    first, second = await steered(runner, one)
    GATES[one].set()
    await until_begun(two)
    record = await runner.session_service.get_invocation(KEY, f"f-{one}")
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner if record else "")
    assert lease_owner is not None
    await client.get_workflow_handle(lease_owner.workflow_id).terminate()
    for sent in (first, second):
        with pytest.raises(InvocationTerminatedError):
            await asyncio.wait_for(sent, PATIENCE)
    with pytest.raises(InvocationTerminatedError):
        await asyncio.wait_for(run(runner, None, invocation_id=f"s-{one}"), PATIENCE)
    GATES[two].set()


async def test_the_message_of_a_sender_that_was_terminated_is_not_heard(
    make_runner: MakeRunner, client: Client
) -> None:
    """I12: its sender has learned that it is over."""
    name = uuid.uuid4().hex
    runner = await make_runner(listener(name))
    first, second = await steered(runner, name)
    await client.get_workflow_handle(workflow_id(KEY, f"s-{name}")).terminate()
    with pytest.raises(InvocationTerminatedError):
        await asyncio.wait_for(second, PATIENCE)
    GATES[name].set()
    assert (await first)[-1] == "a text heard one"
    assert "user text two" not in await gists(runner)


async def test_a_message_is_cancelled_or_heard_and_its_sender_knows_which(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CAN-1, I12: a cancellation after its delivery comes too late."""
    # So long nobody asks whether it was heard.
    monkeypatch.setattr("durable_adk.activities.attempt.MIN_BUSY_DELAY", 3.0)
    monkeypatch.setattr("durable_adk.activities.invocation.queue.IN_PLACE_TICKETS", 0)
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    runner = await make_runner(two_gates(one, two))
    first, second = await steered(runner, one)
    GATES[one].set()
    await until_begun(two)
    assert "user text two" in await gists(runner)
    await runner.cancel(**USER, invocation_id=f"s-{one}")
    GATES[two].set()
    assert (await first)[-1] == "a text done"
    try:
        assert (await asyncio.wait_for(second, PATIENCE))[-1] == "a text done"
    except InvocationCancelledError:
        pytest.fail("It was heard, and its sender was told that it was cancelled.")


def gate_for_each(first: str, second: str) -> LlmAgent:
    """Waits at a gate in its first invocation, and at another one in its second."""

    def reply(request: LlmRequest) -> types.Content | str:
        done = sum(1 for c in request.contents for p in c.parts if p.function_response)
        said = [p.text for c in request.contents if c.role == "user" for p in c.parts if p.text]
        gates = [first, second] if said[-1] == "three" else [first]
        return call("gate", who=gates[done]) if done < len(gates) else f"heard {said[-1]}"

    return LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[gate])


async def test_a_message_that_was_heard_does_not_wait_when_it_is_sent_again(
    make_runner: MakeRunner,
) -> None:
    """I12, I24: also while the session is busy with another one; nothing waits behind it."""
    name, later = uuid.uuid4().hex, uuid.uuid4().hex
    runner = await make_runner(gate_for_each(name, later))
    first, second = await steered(runner, name)
    GATES[name].set()
    await asyncio.gather(first, second)
    third = run(runner, "three", invocation_id=f"t-{later}")
    await until_begun(later)
    async with asyncio.timeout(PATIENCE):
        again = await run(runner, "two", invocation_id=f"s-{name}")
    assert again[-1] == "a text heard two"
    GATES[later].set()
    await third
    assert await runner.session_service.waiting(SessionKey("app", "u", "s")) == []
