"""What a conversation came to, and what must hold of it."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.errors import describe
from durable_adk.events import Event
from durable_adk.partials import LiveText
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.sessions.records import StoredEvent
from tests.scenarios.ledger import Entry, Ledger
from tests.scenarios.scenario import Scenario, Turn
from tests.support.scripts import gist, shape

_DRAWN = re.compile(r'(?:(?<=\.answer\.)|(?<=&state=)|(?<="state": "))[0-9a-f]{32}')
"""In the id of an answer's event: drawn by the client, so it differs between two runs. What OAuth
calls the state differs, too: it is made of the call's key, and that of the user's name."""


@dataclass(frozen=True)
class Heard:
    """What came of one message."""

    events: list[Event]
    error: dict[str, Any] | None
    """`errors.as_detail` of what it ended with."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome:
    """A conversation that was played to its end."""

    scenario: Scenario
    heard: list[Heard]
    stored: dict[str, list[StoredEvent]]
    """The events of each session, by its place."""
    state: dict[str, dict[str, Any]]
    statuses: dict[str, str]
    """How far each invocation is, by place and id."""
    waiting: list[PendingCall]
    runs: list[Entry]
    interrupted: list[str]
    """When its worker was killed."""

    def log(self, place: str) -> list[dict[str, Any]]:
        """A session's events without timestamps, the clients' own ids numbered."""
        text = json.dumps([shape(item.event) for item in self.stored[place]])
        numbers: dict[str, str] = {}
        named = _DRAWN.sub(lambda found: numbers.setdefault(found[0], str(len(numbers))), text)
        return json.loads(named)

    def branches(self, place: str) -> dict[str, list[dict[str, Any]]]:
        """The same by branch, each in its own order."""
        lanes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for event in self.log(place):
            lanes[event.get("branch", "")].append(event)
        return lanes


@dataclass(frozen=True)
class Conversation:
    """A scenario, on a runner."""

    scenario: Scenario
    runner: Runner
    ledger: Ledger
    prefix: str
    """Of its users, so that the sessions of two modes have different names."""
    interrupted: list[str] = field(default_factory=list[str])
    """Gets the moment at which the worker is killed, when it is."""

    async def play(self) -> Outcome:
        """Send all messages; what came of them."""
        sessions, keys = self.runner.session_service, self._keys()
        await sessions.create_session(**_fields(keys["u/s"]), state=dict(self.scenario.initial))
        heard = [
            await self._hear(turn, number) for number, turn in enumerate(self.scenario.turns, 1)
        ]
        stored = {place: await sessions.read_events(key) for place, key in keys.items()}
        return Outcome(
            scenario=self.scenario,
            heard=heard,
            stored=stored,
            state={place: (await sessions.read_state(key))[1] for place, key in keys.items()},
            statuses={
                f"{place} {name}": str(record and record.status)
                for place, key in keys.items()
                for name in dict.fromkeys(item.event.invocation_id for item in stored[place])
                for record in [await sessions.get_invocation(key, name)]
            },
            waiting=await self.runner.pending(
                user_id=keys["u/s"].user_id, session_id=keys["u/s"].session_id
            ),
            runs=self.ledger.of(self.scenario.name),
            interrupted=self.interrupted,
        )

    def _keys(self) -> dict[str, SessionKey]:
        return {place: self._key(place) for place in self.scenario.places}

    def _key(self, place: str) -> SessionKey:
        user, _, session = place.partition("/")
        return SessionKey(self.scenario.name, f"{self.prefix}-{user}", session)

    async def _hear(self, turn: Turn, number: int) -> Heard:
        key = self._key(turn.place)
        message = turn.message
        if callable(message):
            stored = await self.runner.session_service.read_events(key)
            message = message([item.event for item in stored])
        events: list[Event] = []
        try:
            async for event in self.runner.run_async(
                user_id=key.user_id,
                session_id=key.session_id,
                new_message=message,
                invocation_id=f"i{number}",
                state_delta=dict(turn.state_delta),
                run_config=turn.run_config,
            ):
                events.append(event)  # noqa: PERF401  # those before an error count
        except Exception as error:  # noqa: BLE001 - the agents' own are compared too
            return Heard(events, dict(zip(("type", "message"), describe(error), strict=True)))
        return Heard(events, None)


def _fields(key: SessionKey) -> dict[str, str]:
    return {"app_name": key.app_name, "user_id": key.user_id, "session_id": key.session_id}


def check_script(outcome: Outcome) -> None:
    """The conversation went as the scenario says."""
    scenario = outcome.scenario
    for turn, heard in zip(scenario.turns, outcome.heard, strict=True):
        got = [gist(event) for event in heard.events if not event.partial]
        expected = list(turn.gets)
        if scenario.side_by_side:
            got, expected = sorted(got, key=_author), sorted(expected, key=_author)
        assert (got, (heard.error or {}).get("type")) == (expected, turn.raises), heard.error
    assert outcome.state["u/s"] == scenario.state
    assert {place: outcome.state[place] for place in scenario.elsewhere} == scenario.elsewhere
    assert [call.original_name for call in outcome.waiting] == list(scenario.waiting)


def _author(line: str) -> str:
    return line.partition(" ")[0]


def check_log(outcome: Outcome) -> None:
    """Nothing is lost, doubled or left open, and what was yielded is what is stored."""
    ids: Counter[str] = Counter()
    for place, stored in outcome.stored.items():
        assert [item.seq for item in stored] == list(range(1, len(stored) + 1))
        events = [item.event for item in stored]
        ids.update(f"{place} {event.id}" for event in events)
        assert all(event.id and event.timestamp and not event.partial for event in events)
        asked = [call.id for event in events for call in event.get_function_calls()]
        answered = {item.id for event in events for item in event.get_function_responses()}
        waiting = {call.call_id for call in outcome.waiting if place == "u/s"}
        assert len(asked) == len(set(asked))
        assert answered <= set(asked)
        assert set(asked) - answered <= waiting
        heard = [
            event.id
            for turn, heard in zip(outcome.scenario.turns, outcome.heard, strict=True)
            for event in heard.events
            if turn.place == place and not event.partial
        ]
        assert heard == [event.id for event in events if event.author != "user"]
    assert ids.total() == len(ids)


def check_chunks(outcome: Outcome) -> None:
    """What is shown while an answer is written is how it begins, also when it is begun anew."""
    stored = [item.event for events in outcome.stored.values() for item in events]
    whole = {event.id: event.text for event in stored}
    for heard in outcome.heard:
        live = {event.id: LiveText() for event in heard.events}
        for event in heard.events:
            assert whole[event.id].startswith(live[event.id].feed(event))


def check_tools(outcome: Outcome, tools: Sequence[str]) -> None:
    """Each call that is stored ran, with one key; more than once only if its worker was killed."""
    called = {
        call.id or "": call.name
        for stored in outcome.stored.values()
        for item in stored
        for call in item.event.get_function_calls()
        if call.name in tools
    }
    ran = Counter(entry.call_id for entry in outcome.runs)
    must = {call for call, name in called.items() if name not in outcome.scenario.unrun}
    assert must <= ran.keys()
    # Calls of agents that were asked side by side may have the same id, but not the same key.
    places = {(entry.session, entry.call_id) for entry in outcome.runs}
    assert len({(entry.session, entry.call_id, entry.key) for entry in outcome.runs}) == len(places)
    assert len({entry.key for entry in outcome.runs}) == len(places)
