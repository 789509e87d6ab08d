import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from durable_adk.cli.target import load_target

FOLDER = Path(__file__).parents[2] / "examples" / "capital_agent"


@pytest.fixture
def tools(monkeypatch, tmp_path):
    monkeypatch.setenv("DURABLE_ADK_LEDGER", str(tmp_path / "ledger"))
    monkeypatch.setenv("DURABLE_ADK_DEMO_SECONDS", "0")
    loaded = load_target(str(FOLDER))
    return SimpleNamespace(**{tool.__name__: tool for tool in loaded.value.tools})


def book(tools, city: str, key: str) -> dict[str, str]:
    return tools.book_trip(city, SimpleNamespace(idempotency_key=key))


def test_the_example_is_an_agent():
    """The example's folder is a target, named after the folder."""
    loaded = load_target(str(FOLDER))
    assert (loaded.name, loaded.value.name) == ("capital_agent", "capital_agent")


@pytest.mark.parametrize("country", ["France", " france ", "FRANCE", "the France"])
def test_capitals_are_found_however_they_are_asked_for(tools, country):
    """A country is found in any case, and an unknown one is said to be unknown."""
    assert tools.get_capital(country) == {"capital": "Paris"}
    assert "Atlantis" in tools.get_capital("Atlantis")["error"]


def test_a_trip_is_booked_once(tools, tmp_path):
    """A booking that runs again has the same confirmation and leaves no second entry (DUR-9)."""
    first, again, other = (book(tools, "Paris", key) for key in ("a", "a", "b"))
    assert first == again
    assert first["confirmation"] != other["confirmation"]
    lines = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert [(line["key"], line["what"]) for line in lines] == [
        ("a", "started"),
        ("a", "done"),
        ("b", "started"),
        ("b", "done"),
    ]


def test_a_trip_that_was_interrupted_is_finished(tools, tmp_path):
    """A booking that was killed in the middle is done when it runs again."""
    (tmp_path / "ledger").write_text('{"what": "started", "city": "Paris", "key": "a", "pid": 1}\n')
    book(tools, "Paris", "a")
    assert '"done"' in (tmp_path / "ledger").read_text()
