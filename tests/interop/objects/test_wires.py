"""LiteLlm, OpenAI's and Anthropic's models, with their real libraries, on Temporal and over HTTP.

Each test has one conversation with every model, whole and streamed, at the same time.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import Client

from durable_adk.agents.run_config import RunConfig, StreamingMode
from durable_adk.apps import App
from durable_adk.events import Event
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.interop.objects.wires import KEY, TOO_LONG, WIRES, Wire, weather_agent
from tests.stubs.anthropic_stub import SIGNATURE
from tests.stubs.scripted_server import Cut, ScriptedServer, Thought

pytestmark = pytest.mark.sampled(4)
TEXT = "It rains in Lima and in Quito."
CALLS = [("weather", {"city": "Lima"}), ("weather", {"city": "Quito"})]
ATTEMPTS = Limits().model_attempts
QUEUE = "wires"


@dataclass(frozen=True)
class Place:
    """A model, the server it asks, and whether it streams."""

    wire: Wire
    server: ScriptedServer
    runner: Runner
    streams: bool

    async def ask(self, *script: Any) -> tuple[list[Event], list[Event]]:
        """Run the agent with one message: the events that came, and those that are stored."""
        self.server.script = list(script)
        self.server.requests.clear()
        self.server.times.clear()
        mode = StreamingMode.SSE if self.streams else StreamingMode.NONE
        key = {"user_id": "u", "session_id": uuid.uuid4().hex}
        run = self.runner.run_async(
            **key, new_message="Rain?", run_config=RunConfig(streaming_mode=mode)
        )
        heard = [event async for event in run]
        stored = await self.runner.session_service.get_session(app_name=self.runner.app_name, **key)
        assert stored is not None
        return heard, stored.events[1:]  # without the user's

    async def fail(self, *script: Any) -> Exception:
        """Run the agent with one message; the library's error, which ends the run."""
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each library has its own
            await self.ask(*script)
        assert not isinstance(caught.value, AssertionError)
        return caught.value


Check = Callable[[Place], Awaitable[None]]


@pytest.fixture(scope="module")
async def places(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Place]]:
    """Each model, whole and streamed; one worker serves them all."""
    sessions = SqliteSessionService(tmp_path_factory.mktemp("wires") / "sessions.db")
    made: list[Place] = []
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sessions.close)
        for wire in WIRES:
            for streams in (False, True):
                server = wire.server()
                await server.start()
                stack.push_async_callback(server.close)
                name = f"{wire.name}_{wire.provider}_{'streamed' if streams else 'whole'}"
                runner = Runner(
                    app=App(name=name, root_agent=weather_agent(wire, server.url)),
                    session_service=sessions,
                    client=client,
                    task_queue=QUEUE,
                    auto_create_session=True,
                )
                made.append(Place(wire, server, runner, streams))
        apps = [place.runner.app for place in made]
        options = WorkerOptions(task_queue=QUEUE)
        await stack.enter_async_context(
            worker(client, apps=apps, session_service=sessions, options=options)
        )
        yield made


@pytest.fixture
def everywhere(places: list[Place]) -> Callable[[Check], Awaitable[None]]:
    """Check all of them at once."""

    async def check_all(check: Check, among: Callable[[Place], bool] = lambda _: True) -> None:
        async def one(place: Place) -> None:
            try:
                await check(place)
            except BaseException as error:
                error.add_note(f"with {place.runner.app_name}")
                raise

        async with asyncio.TaskGroup() as group:
            for place in filter(among, places):
                group.create_task(one(place))

    return check_all


def streamed(place: Place) -> bool:
    return place.streams


def calls(event: Event) -> list[tuple[str, Any]]:
    return [(call.name or "", call.args) for call in event.get_function_calls()]


def assert_one_answer(place: Place, heard: list[Event], stored: list[Event]) -> None:
    """The text is there once, asked for twice."""
    assert [event.text for event in stored] == [TEXT]
    assert [event.text for event in heard if not event.partial] == [TEXT]
    assert len(place.server.requests) == 2


async def test_calls_and_texts_arrive_whole(everywhere: Any) -> None:
    """Two calls at once, in pieces if they are streamed, and their results under their ids."""

    async def check(place: Place) -> None:
        heard, stored = await place.ask(CALLS, TEXT)
        asked, answered, said = stored
        assert calls(asked) == CALLS
        results = [one.response for one in answered.get_function_responses()]
        assert results == [{"weather": "rain in Lima"}, {"weather": "rain in Quito"}]
        assert said.text == TEXT
        assert [event.id for event in heard if not event.partial] == [event.id for event in stored]
        assert [asked.usage_metadata.total_token_count for asked in (asked, said)] == [18, 18]
        first, second = place.server.requests
        assert first["authorization"].endswith(KEY)
        assert bool(first.get("stream")) is place.streams
        assert all(f"call_0_{index}" in str(second["messages"]) for index in (0, 1))

    await everywhere(check)


async def test_chunks_carry_the_text(everywhere: Any) -> None:
    """Piece by piece if it is streamed; what chunks show of calls is not made."""

    async def check(place: Place) -> None:
        heard, stored = await place.ask(CALLS, TEXT)
        chunks = [event for event in heard if event.partial]
        assert "".join(chunk.text for chunk in chunks) == (TEXT if place.streams else "")
        assert len(chunks) > 2 or not place.streams
        assert len(stored) == 3

    await everywhere(check)


async def test_thoughts_stay_thoughts(everywhere: Any) -> None:
    """They are no text, and the next request has them with the signature that they came with."""

    async def check(place: Place) -> None:
        _, stored = await place.ask(Thought("Two cities.", CALLS), TEXT)
        parts = stored[0].content.parts
        assert "".join(part.text for part in parts if part.thought) == "Two cities."
        assert stored[0].text == ""
        assert calls(stored[0]) == CALLS
        asked_again = str(place.server.requests[1]["messages"])
        assert "Two cities." in asked_again
        assert place.wire.provider == "openai" or SIGNATURE in asked_again

    # google-adk's OpenAILlm knows no thoughts of chat completions.
    await everywhere(check, among=lambda place: place.wire.name != "OpenAILlm")


async def test_a_limit_of_rates_waits_as_long_as_it_says(everywhere: Any) -> None:
    """Longer than the runtime would have waited, and then asks once."""

    async def check(place: Place) -> None:
        limited = place.wire.refusal(429, retry_after="2")
        assert_one_answer(place, *await place.ask(limited, TEXT))
        first, second = place.server.times
        assert second - first >= 2

    await everywhere(check)


@pytest.mark.parametrize("status", [429, 500, 529])
async def test_each_attempt_is_one_request(everywhere: Any, status: int) -> None:
    """Of what passes but does not; the libraries do not ask again by themselves."""

    async def check(place: Place) -> None:
        refusal = place.wire.refusal(status, "busy-11", retry_after="0.01")
        error = await place.fail(refusal)
        assert "busy-11" in str(error)
        assert len(place.server.requests) == ATTEMPTS

    await everywhere(check)


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (401, "invalid key-12", "invalid_api_key"),
        (400, "tools.0: no such type", "invalid_request"),
        (400, TOO_LONG, "context_length_exceeded"),
    ],
    ids=["wrong-key", "bad-request", "context-too-long"],
)
async def test_what_lasts_ends_the_run(everywhere: Any, status: int, words: Any, code: str) -> None:
    """At once, with the provider's words."""

    async def check(place: Place) -> None:
        said = words if isinstance(words, str) else words[place.wire.provider]
        error = await place.fail(place.wire.refusal(status, said, code), TEXT)
        assert said in str(error)
        assert len(place.server.requests) == 1

    await everywhere(check)


@pytest.mark.parametrize("how", ["reset", "closed"])
async def test_a_cut_connection_is_asked_again(everywhere: Any, how: Any) -> None:
    """In the middle of an answer, of which nothing is stored."""

    async def check(place: Place) -> None:
        assert_one_answer(place, *await place.ask(Cut(TEXT, 3, how), TEXT))

    await everywhere(check)


async def test_a_stream_that_ends_too_early_is_asked_again(everywhere: Any) -> None:
    """Also if its last bytes look like an end."""

    async def check(place: Place) -> None:
        assert_one_answer(place, *await place.ask(Cut(TEXT, 3, "ended"), TEXT))

    await everywhere(check, among=streamed)


async def test_an_error_in_a_stream_is_asked_again(everywhere: Any) -> None:
    """Overload that the provider notices after the status 200."""

    async def check(place: Place) -> None:
        overload = place.wire.error(529)
        assert_one_answer(place, *await place.ask(Cut(TEXT, 3, overload), TEXT))

    await everywhere(check, among=streamed)


@pytest.mark.parametrize("how", ["reset", "closed", "ended"])
async def test_a_half_call_is_not_made(everywhere: Any, how: Any) -> None:
    """The tool runs once, with the arguments of the whole one."""

    async def check(place: Place) -> None:
        _, stored = await place.ask(Cut(CALLS[:1], 4, how), CALLS[:1], TEXT)
        assert [calls(event) for event in stored] == [CALLS[:1], [], []]
        assert len(place.server.requests) == 3

    await everywhere(check, among=streamed)
