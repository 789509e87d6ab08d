"""Our stores as services of google-adk's own runner."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions.database_session_service import DatabaseSessionService
from tests.adk.google_adk import GoogleAdk
from tests.support.required import interpreter


@pytest.fixture(scope="module")
def adk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleAdk]:
    """The process of google-adk's programs."""
    log = tmp_path_factory.mktemp("google-adk") / "log"
    with GoogleAdk(interpreter("adk"), log, "tests.interop.service_side") as process:
        yield process


def url_of(folder: Path) -> str:
    """The URL of a store in a folder."""
    return f"sqlite:///{folder}/sessions.db"


def test_google_adks_runner_sees_no_difference(adk, tmp_path) -> None:
    """Events, state, artifacts, memories and the model's requests are those of its own services."""
    theirs, ours = adk.ask(work="converse", folder=str(tmp_path), url=url_of(tmp_path))
    for mine, other in zip(ours["session"]["events"], theirs["session"]["events"], strict=True):
        assert mine == other
    assert ours == theirs
    assert ours["session"]["state"]["size"] == 42
    assert ours["contents"] == ["one pair", "gold"]


async def test_one_conversation_is_had_by_both(adk, tmp_path) -> None:
    """What google-adk has stored is the history of our run, and the other way round."""
    url = url_of(tmp_path)
    adk.ask(work="converse", folder=str(tmp_path), url=url)
    model = ScriptedModel(replies=lambda _: "Size 42.")
    app = App(name="shop", root_agent=LlmAgent(name="seller", model=model))
    async with (
        DatabaseSessionService(url) as store,
        Runner(app=app, session_service=store) as runner,
    ):
        run = runner.run_async(user_id="anna", session_id="s1", new_message="Which size?")
        assert [event.text async for event in run] == ["Size 42."]
    texts = [part.text for one in model.requests[-1].contents for part in one.parts or []]
    assert texts[0] == "I want shoes."
    assert "You ordered shoes." in texts
    asked = adk.ask(work="go_on", url=url)[-1]
    assert asked[-3:] == ["Which size?", "Size 42.", "Once more."]


def test_calls_do_what_google_adks_services_do(adk, tmp_path) -> None:
    """Errors are google-adk's own, and an event that is appended twice is stored once."""
    found = adk.ask(work="calls", url=url_of(tmp_path))
    assert found == {
        "stale": "StaleSessionError",
        "stale without a revision": "StaleSessionError",
        "taken": "AlreadyExistsError",
        "missing": "SessionNotFoundError",
        "in memory": [{"temp:t": 1, "k": None}, 1],
        "recent": [1, 1, {"k": None}],
        "deleted": None,
    }


def test_memories_and_artifacts_are_kept(adk, tmp_path) -> None:
    """Single calls reach our services; an artifact without a session is the user's."""
    assert adk.ask(work="memories", folder=str(tmp_path)) == {
        "hats": [{"by": "hand"}, 1],
        "left": [1, 0],
        "version": [0, {"m": 1}],
        "keys": ["user:a.txt"],
        "deleted": None,
    }
