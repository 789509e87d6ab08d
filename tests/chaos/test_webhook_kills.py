"""A worker is killed between what is stored of an invocation and its webhook."""

import asyncio

import pytest
from google.genai import types

from durable_adk.settings import WebhookEndpoint, Webhooks
from tests.chaos.conftest import MakePlace
from tests.support.processes import SESSION, Workplace
from tests.support.receiver import SECRET, Receiver, receiving

CASES = [
    ("pause.after:kill@1", "approval", ["paused", "completed"]),
    ("pause.after:kill@1,2", "approval", ["paused", "completed"]),
    ("commit.after:kill@3", "charge", ["completed"]),
    ("close.after:kill@1", "audited", ["completed"]),
]
"""Where workers die: after a pause, after a step's commit that ends a run, after its end."""


async def approve(place: Workplace, app: str) -> None:
    """Approve what waits."""
    async with place.runner(app) as runner:
        (pending,) = await runner.pending(user_id=place.queue, session_id=SESSION)
        part = types.FunctionResponse(
            id=pending.call_id, name=pending.name, response={"confirmed": True}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=part)])
        async for _ in runner.run_async(
            user_id=place.queue, session_id=SESSION, new_message=message
        ):
            pass


async def arrived(receiver: Receiver, number: int) -> list[str]:
    """What was told, once there is so much."""
    async with asyncio.timeout(60):
        while len(receiver.received) < number:
            await asyncio.sleep(0.05)
    return [message["data"]["status"] for message in receiver.received]


@pytest.mark.parametrize(("at", "app", "told"), CASES, ids=[case[0] for case in CASES])
async def test_a_webhook_survives_its_worker(
    make_place: MakePlace, at: str, app: str, told: list[str]
) -> None:
    """S27: what was stored is told once, whichever worker is left to do so."""
    place = make_place()
    with receiving() as receiver:
        endpoint = WebhookEndpoint.model_validate({"url": receiver.url, "secret": SECRET})
        place.webhooks = Webhooks(endpoints=(endpoint,))
        async with place.restarted_worker(at):
            await place.all_of(app)
            if "paused" in told:
                assert await arrived(receiver, 1) == ["paused"]
                await approve(place, app)
            assert await arrived(receiver, len(told)) == told
            await place.workflow(app).result()
        assert place.deaths >= 1
        assert len(receiver.ids) == len(told)
