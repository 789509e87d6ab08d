"""Sessions that google-adk's own services have written come into our store, and back again."""

import json
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import InvalidRequestError
from durable_adk.events.event import Event
from durable_adk.models import ScriptedModel
from durable_adk.ops.adk_sessions.copies import copy_sessions
from durable_adk.ops.adk_sessions.database import open_database
from durable_adk.ops.adk_sessions.stored_sessions import StoredSessions
from durable_adk.runners import Runner
from durable_adk.sessions.database_session_service import DatabaseSessionService
from durable_adk.sessions.session import Session
from durable_adk.tools import FunctionTool, LongRunningFunctionTool
from tests.adk.google_adk import GoogleAdk
from tests.support.commands import PROGRAM, Terminal
from tests.support.postgres import HAS_POSTGRES
from tests.support.required import ROOT, interpreter
from tests.support.scripts import call
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough

KINDS = ["v1", "file"]
LONG = 130
MORE = 200


@pytest.fixture(scope="module")
def adk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleAdk]:
    """The process of google-adk's services."""
    log = tmp_path_factory.mktemp("google-adk") / "log"
    with GoogleAdk(interpreter("adk"), log, "tests.interop.adk_databases") as process:
        yield process


def command(verb: str, url: str, store: str | Path, *options: str) -> list[str]:
    """The arguments of a copy."""
    url = url.replace("+aiosqlite", "")
    return ["sessions", verb, url, "--store", str(store), "--json", *options]


def reported(verb: str, url: str, store: Path, *options: str) -> dict[str, Any]:
    """What the command reports; its exit code says whether there were problems."""
    run = Terminal(ROOT).run(*command(verb, url, store, *options))
    assert run.stdout, run.stderr
    report = json.loads(run.stdout)
    assert run.returncode == (1 if report["problems"] else 0), run.stderr
    return report


async def copied(verb: str, url: str, store: str | Path) -> dict[str, Any]:
    """The same without a process."""
    url = url.replace("+aiosqlite", "")
    is_target = verb == "export"
    async with (
        DatabaseSessionService(f"sqlite:///{store}" if isinstance(store, Path) else store) as ours,
        open_database(url, is_target=is_target) as theirs,
    ):
        await ours.prepare()
        if is_target:
            return (await copy_sessions(StoredSessions(store=ours), theirs)).as_json()
        return (await copy_sessions(theirs, ours)).as_json()


def sqlite(path: Path) -> str:
    """The URL of a file, as google-adk takes it."""
    return f"sqlite+aiosqlite:///{path}"


async def stored(url: str) -> list[dict[str, Any]]:
    """All sessions of a store of ours, as google-adk would show them."""
    async with DatabaseSessionService(url) as store:
        listed = await store.list_sessions(app_name="shop")
        keys = sorted((one.user_id, one.id) for one in listed.sessions)
        found = [
            await store.get_session(app_name="shop", user_id=user, session_id=name)
            for user, name in keys
        ]
    return [shown(one) for one in found if one]


def shown(session: Session) -> dict[str, Any]:
    """Our session as `as_ours` has google-adk's."""
    value = session.to_value()
    return {**value, "lastUpdateTime": round(session.last_update_time, 6)}


def as_ours(session: dict[str, Any]) -> dict[str, Any]:
    """google-adk's session without what ours does not have: fields, and empty ones."""
    events = [Event.read(one) for one in session["events"]]
    for event in events:
        event.long_running_tool_ids = event.long_running_tool_ids or None
    return {**session, "events": [event.to_value() for event in events]}


def write(adk: GoogleAdk, url: str, kind: str) -> list[dict[str, Any]]:
    """Have google-adk write a database, and return what it reads from it."""
    adk.ask(work="write", url=url, kind=kind, long=LONG)
    return adk.ask(work="read", url=url, kind=kind)


@dataclass(frozen=True)
class Written:
    """A database that google-adk has written, and what it reads from it."""

    file: Path
    sessions: list[dict[str, Any]]

    def copied_to(self, file: Path) -> list[dict[str, Any]]:
        """Let a test have it for itself."""
        shutil.copyfile(self.file, file)
        return self.sessions


OfKind = Callable[[str], Written]


@pytest.fixture(scope="module")
def written(adk: GoogleAdk, tmp_path_factory: pytest.TempPathFactory) -> OfKind:
    """The database of each kind, written once: that takes google-adk seconds."""
    folder = tmp_path_factory.mktemp("written")

    @cache
    def of(kind: str) -> Written:
        file = folder / f"{kind}.db"
        return Written(file, write(adk, sqlite(file), kind))

    return of


@pytest.mark.parametrize("kind", KINDS)
async def test_an_import_has_all_that_google_adk_shows(written, tmp_path, kind) -> None:
    """Ids, times, authors, content, actions, state of all scopes and the order are the same."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    theirs = written(kind).copied_to(tmp_path / "adk.db")
    report = reported("import", url, store)
    counts = {"found": 4, "copied": 4, "continued": 0, "present": 0, "different": 0}
    assert report["sessions"] == {**counts, "unreadable": 0}
    assert report["events"] == {"copied": LONG + 10, "present": 0, "unreadable": 0}
    ours = await stored(f"sqlite:///{store}")
    assert ours == [as_ours(one) for one in theirs]
    first = ours[2]["events"]
    assert [one["id"] for one in first] == [f"event-{9 - n}" for n in range(5)]
    assert first[1]["longRunningToolIds"] == ["c1", "c2"]
    assert first[2]["actions"]["requestedToolConfirmations"]["c2"]["hint"] == "Sure?"
    assert ours[2]["state"]["app:rate"] == 1.25


@pytest.mark.parametrize("kind", ["v1", "file"])
async def test_an_export_is_the_database_that_was_imported(adk, written, tmp_path, kind) -> None:
    """google-adk reads the same from it, also in the fields that we do not have."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    theirs = written(kind).copied_to(tmp_path / "adk.db")
    await copied("import", url, store)
    back = sqlite(tmp_path / "back.db")
    assert (await copied("export", back, store))["sessions"]["copied"] == 4
    assert adk.ask(work="read", url=back, kind="v1") == theirs
    assert (await copied("export", back, store))["sessions"]["present"] == 4


@pytest.mark.skipif(not HAS_POSTGRES, reason="needs PostgreSQL's wheel")
async def test_postgres_databases_are_copied(adk, postgres) -> None:
    """From PostgreSQL into PostgreSQL, and back."""
    source, store, back = [await postgres.make() for _ in range(3)]
    theirs = write(adk, source.replace("postgresql://", "postgresql+asyncpg://"), "v1")
    report = await copied("import", source, store)
    assert report["problems"] == []
    assert await stored(store) == [as_ours(one) for one in theirs]
    assert (await copied("import", source, store))["events"]["present"] == LONG + 10
    await copied("export", back, store)
    assert (await copied("export", back, store))["events"]["present"] == LONG + 10
    url = back.replace("postgresql://", "postgresql+asyncpg://")
    assert adk.ask(work="read", url=url, kind="v1") == theirs


def many(adk: GoogleAdk, written: OfKind, file: Path) -> list[dict[str, Any]]:
    """A database with `MORE` sessions of two events each, whose rows are copies of google-adk's."""
    written("v1").copied_to(file)
    statements = [
        "CREATE TEMP TABLE one AS SELECT * FROM sessions WHERE id = 'long'",
        "UPDATE one SET state = json_set(state, '$.count', 1)",
        "CREATE TEMP TABLE two AS SELECT * FROM events WHERE id IN ('m0', 'm1')",
    ]
    for number in range(MORE):
        statements += [
            f"UPDATE one SET id = 'more-{number}'",  # noqa: S608
            f"UPDATE two SET session_id = 'more-{number}'",  # noqa: S608
            "INSERT INTO sessions SELECT * FROM one",
            "INSERT INTO events SELECT * FROM two",
        ]
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(";".join(["BEGIN", *statements, "COMMIT"]))
    return adk.ask(work="read", url=sqlite(file), kind="v1")


def killed(line: list[str], file: Path, table: str, rows: int) -> None:
    """Run a copy, and kill it when a table has so many rows; anew if it was done before that."""
    for _ in range(5):
        process = subprocess.Popen([*PROGRAM, *line], cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            until_true(lambda: process.poll() is not None or count(file, table) >= rows)  # noqa: B023 - used at once
        finally:
            process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            return
        for left in file.parent.glob(f"{file.name}*"):
            left.unlink()
    raise AssertionError("the copy was done before it was killed")


def count(file: Path, table: str) -> int:
    """The rows of a table; 0 while there is none."""
    if not file.exists():
        return 0
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [101])
async def test_a_killed_import_is_continued(adk, written, tmp_path, rows) -> None:
    """SIGKILL between two sessions: the next import brings the rest, and nothing twice."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    theirs = many(adk, written, tmp_path / "adk.db")
    killed(command("import", url, store), store, "events", rows)
    there = count(store, "events")
    report = await copied("import", url, store)
    missing = LONG + 10 + 2 * MORE - there
    assert report["events"] == {"copied": missing, "present": there, "unreadable": 0}
    assert await stored(f"sqlite:///{store}") == [as_ours(one) for one in theirs]


@pytest.mark.sampled(2)
async def test_a_killed_export_is_continued(adk, written, tmp_path) -> None:
    """SIGKILL between two sessions: the next export brings the rest, and nothing twice."""
    url, store, back = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db", tmp_path / "back.db"
    theirs = many(adk, written, tmp_path / "adk.db")
    await copied("import", url, store)
    killed(command("export", sqlite(back), store), back, "events", 300)
    await copied("export", sqlite(back), store)
    assert adk.ask(work="read", url=sqlite(back), kind="v1") == theirs


async def test_a_session_that_went_on_in_google_adk_is_continued(adk, written, tmp_path) -> None:
    """The next import appends what was said since, with the state that comes of it."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    written("v1").copied_to(tmp_path / "adk.db")
    await copied("import", url, store)
    adk.ask(work="grow", url=url, kind="v1", start=LONG, upto=LONG + 3)
    report = await copied("import", url, store)
    assert report["sessions"]["continued"] == 1
    assert report["events"]["copied"] == 3
    theirs = adk.ask(work="read", url=url, kind="v1")
    assert await stored(f"sqlite:///{store}") == [as_ours(one) for one in theirs]


async def test_other_sessions_and_values_are_left_alone(written, tmp_path) -> None:
    """What the store has under the same name stays as it is, and is named."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    written("v1").copied_to(tmp_path / "adk.db")
    async with DatabaseSessionService(f"sqlite:///{store}") as ours:
        session = await ours.create_session(
            app_name="shop", user_id="anna", session_id="s1", state={"user:tier": "tin"}
        )
        await ours.append_event(session, Event(author="user", message="Mine."))
        await ours.create_session(
            app_name="shop", user_id="anna", session_id="empty", state={"mine": 1}
        )
        await ours.create_session(app_name="shop", user_id="anna", session_id="long")
    report = await copied("import", url, store)
    assert report["sessions"]["different"] == 3
    assert report["sessions"]["copied"] == 1
    named = [(one.get("user"), one.get("session")) for one in report["problems"]]
    expected = [("anna", None), ("anna", "s1"), ("anna", "empty"), ("anna", "long")]
    assert sorted(named, key=str) == sorted(expected, key=str)
    sessions = {(one["userId"], one["id"]): one for one in await stored(f"sqlite:///{store}")}
    assert [one["content"]["parts"] for one in sessions["anna", "s1"]["events"]] == [
        [{"text": "Mine."}]
    ]
    assert sessions["anna", "empty"]["state"]["mine"] == 1
    assert sessions["anna", "s1"]["state"]["user:tier"] == "tin"
    assert sessions["ben", "s1"]["state"]["begun"] == {"by": "s1"}


async def test_the_conversation_goes_on(written, tmp_path) -> None:
    """The model is asked with the imported history, and sees the imported state."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    written("v1").copied_to(tmp_path / "adk.db")
    await copied("import", url, store)
    model = ScriptedModel(replies=lambda _: "Go on.")
    agent = LlmAgent(name="root", model=model, instruction="{user:tier} {count}")
    async with (
        DatabaseSessionService(f"sqlite:///{store}") as ours,
        Runner(app=App(name="shop", root_agent=agent), session_service=ours) as runner,
    ):
        run = runner.run_async(user_id="anna", session_id="long", new_message="And now?")
        said = [event.text async for event in run]
        session = await ours.get_session(app_name="shop", user_id="anna", session_id="long")
    assert said == ["Go on."]
    request = model.requests[-1]
    texts = [part.text for content in request.contents for part in content.parts or []]
    assert texts == [*map(str, range(LONG)), "And now?"]
    assert "gold 129" in str(request.config.system_instruction)
    assert session
    assert [one.text for one in session.events[-3:]] == [str(LONG - 1), "And now?", "Go on."]
    assert (await copied("import", url, store))["sessions"]["present"] == 4


async def test_a_request_that_waited_is_named_and_made_again(adk, tmp_path) -> None:
    """No workflow waits for the answer, which is refused; a message makes the tool ask again."""
    url, store, back = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db", tmp_path / "back.db"
    adk.ask(work="converse", url=url, kind="v1")
    theirs = adk.ask(work="read", url=url, kind="v1")
    report = await copied("import", url, store)
    where = {"app": "shop", "user": "anna", "session": "asks"}
    assert report["requests"] == [{**where, "tool": "pay", "kind": "confirmation"}]
    assert (await copied("import", url, store))["events"]["copied"] == 0
    reported("export", sqlite(back), store)
    assert adk.ask(work="read", url=sqlite(back), kind="v1") == theirs

    tool = FunctionTool(pay, require_confirmation=True)
    model = ScriptedModel(replies=lambda _: call("pay", amount=3))
    agent = LlmAgent(name="root", tools=[tool], model=model)
    session = {"user_id": "anna", "session_id": "asks"}
    async with (
        DatabaseSessionService(f"sqlite:///{store}") as ours,
        Runner(app=App(name="shop", root_agent=agent), session_service=ours) as runner,
    ):
        (asked,) = [
            each["content"]["parts"] for each in theirs[0]["events"] if each["longRunningToolIds"]
        ]
        old = types.FunctionCall.model_validate(asked[0]["functionCall"])
        answer = types.FunctionResponse(id=old.id, name=old.name, response={"confirmed": True})
        with pytest.raises(InvalidRequestError, match="copied from google-adk"):
            async for _ in runner.run_async(
                **session, new_message=types.UserContent([types.Part(function_response=answer)])
            ):
                pass
        async for _ in runner.run_async(**session, new_message="Once more."):
            pass
        (pending,) = await runner.pending(**session)
    assert (pending.kind, pending.original_name) == ("confirmation", "pay")
    assert pending.call_id != old.id


async def test_an_agent_that_was_handed_over_to_goes_on(adk, tmp_path) -> None:
    """google-adk gives its events a path below the root agent's, as graphs give their nodes."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    adk.ask(work="hand_over", url=url, kind="v1")
    report = await copied("import", url, store)
    assert report["requests"] == []  # its answer opens an invocation

    def book(city: str) -> dict[str, str]:
        """Book."""
        return {"status": "pending"}

    model = ScriptedModel(replies=lambda _: "Soon.")
    clerk = LlmAgent(name="clerk", model=model, tools=[LongRunningFunctionTool(book)])
    agent = LlmAgent(name="root", model=ScriptedModel(replies=[]), sub_agents=[clerk])
    session = {"user_id": "anna", "session_id": "hands"}
    async with (
        DatabaseSessionService(f"sqlite:///{store}") as ours,
        Runner(app=App(name="shop", root_agent=agent), session_service=ours) as runner,
    ):
        said = [event async for event in runner.run_async(**session, new_message="And?")]
        assert [(event.author, event.text) for event in said] == [("clerk", "Soon.")]
        texts = [part.text for one in model.requests[0].contents for part in one.parts or []]
        assert "I am on it." in texts
        stored = await ours.get_session(app_name="shop", **session)
        assert stored
        (asked,) = [
            call
            for event in stored.events
            for call in event.get_function_calls()
            if call.name == "book"
        ]
        answer = types.FunctionResponse(id=asked.id, name="book", response={"seat": "1A"})
        message = types.UserContent([types.Part(function_response=answer)])
        said = [event async for event in runner.run_async(**session, new_message=message)]
    assert [(event.author, event.text) for event in said] == [("clerk", "Soon.")]


def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


def change(path: Path, *statements: str) -> None:
    """Change a SQLite file."""
    connection = sqlite3.connect(path)
    for statement in statements:
        assert connection.execute(statement).rowcount
    connection.commit()
    connection.close()


async def test_bad_rows_are_named_and_left_out(written, tmp_path) -> None:
    """The other events of the session, and the other sessions, are imported."""
    url, store = sqlite(tmp_path / "adk.db"), tmp_path / "ours.db"
    written("v1").copied_to(tmp_path / "adk.db")
    change(
        tmp_path / "adk.db",
        "UPDATE events SET event_data = '{\"author\": 1' WHERE id = 'm3'",
        "UPDATE events SET event_data = '{\"content\": {\"parts\": 5}}' WHERE id = 'm110'",
        "UPDATE sessions SET state = '[1]' WHERE id = 's1' AND user_id = 'ben'",
        "UPDATE user_states SET state = '{\"x\": NaN}' WHERE user_id = 'anna'",
        "DELETE FROM sessions WHERE id = 's1' AND user_id = 'anna'",
    )
    report = await copied("import", url, store)
    named = [(one["user"], one.get("session"), one.get("event")) for one in report["problems"]]
    assert named == [
        ("anna", None, None),
        ("anna", "long", "m3"),
        ("anna", "long", "m110"),
        ("anna", "s1", None),
        ("ben", "s1", None),
    ]
    assert report["sessions"]["unreadable"] == 2
    assert report["events"] == {"copied": LONG - 2, "present": 0, "unreadable": 2}
    assert (await copied("import", url, store))["events"]["present"] == LONG - 2


def migrate(old: Path, new: Path) -> None:
    """Have google-adk's command convert a database, as the docs say."""
    program = interpreter("adk").with_name("adk")
    urls = ("--source_db_url", f"sqlite:///{old}", "--dest_db_url", f"sqlite:///{new}")
    subprocess.run((program, "migrate", "session", *urls), check=True, capture_output=True)


async def test_a_database_of_1x_is_converted_first(written, tmp_path) -> None:
    """S12: its events are pickled, so google-adk has to read them; the error says how."""
    old, new, store = tmp_path / "old.db", tmp_path / "new.db", tmp_path / "ours.db"
    theirs = written("v0").copied_to(old)
    with pytest.raises(InvalidRequestError, match="`adk migrate session`"):
        await copied("import", sqlite(old), store)
    migrate(old, new)
    report = await copied("import", sqlite(new), store)
    assert report["sessions"]["copied"] == 4
    ours = [as_ours(one) for one in await stored(f"sqlite:///{store}")]
    assert ours == [as_ours(one) for one in theirs]
