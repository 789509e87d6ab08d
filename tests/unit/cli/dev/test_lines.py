"""The lines that `dev` writes between what the agents' code prints."""

import io
import re

import pytest
from google.genai import types

from durable_adk.cli.dev.lines import Lines
from durable_adk.events import Event
from durable_adk.sessions.session import SessionKey

KEY = SessionKey("weather", "me", "a-session-with-a-long-id")


class Screen(io.TextIOWrapper):
    """A terminal without colours, 60 columns wide."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), write_through=True)

    @property
    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
def lines(screen) -> Lines:
    made = Lines(file=screen)
    made.align(["forecaster"])
    return made


def said(author: str, text: str) -> Event:
    return Event(
        author=author,
        timestamp=1.0,
        content=types.Content(role="model", parts=[types.Part(text=text)]),
    )


def test_an_event_is_one_aligned_line(screen, lines):
    """Time, session, author and text stand below each other; a text of many lines is one."""
    lines.event(KEY, said("user", "Hello\n\n  you"), note="to weather")
    lines.event(KEY, said("forecaster", "Sunny."))
    first, second = screen.text.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  a-session-w…  user        Hello   you  to weather", first)
    assert second[8:] == "  a-session-w…  forecaster  Sunny."


def test_a_long_text_is_cut(screen, lines):
    """A line has no more than the width of the terminal; what is behind the text stays."""
    lines.event(KEY, said("forecaster", "sun " * 200), note="7 tokens")
    (line,) = screen.text.splitlines()
    assert len(line) <= 200
    assert line.endswith("…  7 tokens")


def test_what_is_printed_stays_as_it_is(screen, lines):
    """A line of ours begins a new line, and no byte of what is printed changes."""
    lines.pass_on(b"50 \xff %")
    lines.event(KEY, said("user", "Hi"))
    lines.pass_on(b"\x1b[1mbold\n")
    lines.event(KEY, said("user", "Ho"))
    printed = screen.buffer.getvalue().split(b"\n")
    assert (printed[0], printed[2]) == (b"50 \xff %", b"\x1b[1mbold")
    assert printed[1].endswith(b"Hi")
    assert printed[3].endswith(b"Ho")


def test_control_characters_of_a_model_are_written_out(screen, lines):
    """S24: a model's text does not move the cursor."""
    lines.event(KEY, said("forecaster", "\x1b[2Jgone"))
    assert "\x1b" not in screen.text
    assert r"\x1b[2Jgone" in screen.text


def test_quiet_leaves_out_what_agents_do_and_not_what_they_print(screen):
    """`--quiet` is about our lines."""
    lines = Lines(quiet=True, file=screen)
    lines.event(KEY, said("user", "Hi"))
    lines.rows([("at", "agent.py:1")])
    lines.pass_on(b"printed\n")
    assert screen.text == "printed\n"


def test_commands_are_not_cut(screen, lines):
    """They can be copied as they stand, however long they are."""
    command = "durable-adk approve " + "x" * 300
    lines.rows([("approve", command)])
    assert screen.text.endswith(f"{command}\n")


def test_notices_go_to_the_logs_if_these_are_for_programs(screen, lines, monkeypatch, caplog):
    """They are said once: on the terminal, or in the logs."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "console")
    lines.notice("code.loaded", "New code.", apps=["a"])
    assert screen.text == "New code.\n"
    monkeypatch.setenv("DURABLE_ADK_LOG", "json")
    lines.notice("code.loaded", "New code.", apps=["a"])
    assert screen.text == "New code.\n"
    assert "code.loaded" in caplog.text
