"""A worker is killed between what is stored of an invocation and its webhook."""

from typing import Any

import pytest
from google.genai import types

from durable_adk.settings import WebhookEndpoint, Webhooks
from durable_adk.wire.webhook import PushConfig
from tests.chaos.conftest import MakePlace
from tests.support.processes import INVOCATION, SESSION, Workplace
from tests.support.receiver import SECRET, Receiver, receiving
from tests.support.waiting import until

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


async def notified(place: Workplace, app: str, receiver: Receiver) -> None:
    """Have a receiver notified of the run, as a client of A2A does."""
    body = PushConfig(id="p", url=receiver.url).to_json()
    of = {"invocation_id": INVOCATION, "name": "p"}
    key = place.key(app)
    await place.sessions.put_push_config(key, **of, body=body, limit=1, create_session=True)


async def arrived(receiver: Receiver, number: int) -> list[str]:
    """The notifications, once there are so many."""
    await until(lambda: len(receiver.received) >= number)
    return [status(message) for message in receiver.received]


def status(message: dict[str, Any]) -> str:
    """What a message says, in a word: a webhook, or a push notification."""
    if "data" in message:
        return message["data"]["status"]
    state = message["statusUpdate"]["status"]["state"]
    return {"TASK_STATE_INPUT_REQUIRED": "paused", "TASK_STATE_COMPLETED": "completed"}[state]


@pytest.mark.parametrize(("at", "app", "told"), CASES, ids=[case[0] for case in CASES])
async def test_a_webhook_survives_its_worker(
    make_place: MakePlace, at: str, app: str, told: list[str]
) -> None:
    """S27: what was stored is sent once, by whichever worker is left, also to a push receiver."""
    place = make_place()
    with receiving() as receiver, receiving(signed=False) as other:
        endpoint = WebhookEndpoint.model_validate({"url": receiver.url, "secret": SECRET})
        place.webhooks = Webhooks(endpoints=(endpoint,), push_hosts=("127.0.0.1",))
        await notified(place, app, other)
        async with place.restarted_worker(at):
            await place.all_of(app)
            if "paused" in told:
                assert await arrived(receiver, 1) == ["paused"]
                await approve(place, app)
            assert await arrived(receiver, len(told)) == told
            assert await arrived(other, len(told)) == told
            await place.workflow(app).result()
        assert place.deaths >= 1
        assert len(receiver.ids) == len(other.ids) == len(told)
