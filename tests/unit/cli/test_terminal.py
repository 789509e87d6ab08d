"""Text on a terminal as it grows."""

import io
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from google.genai import types

from durable_adk.cli.terminal import LivePrinter, print_table, without_raised
from durable_adk.events import Event, RequestInput
from durable_adk.events.request_input import request_input_event
from tests.support.chunks import chunk, event


def shown(*events, **options):
    """What the terminal shows after each event."""
    file = io.StringIO()
    printer = LivePrinter(file=file, **options)
    screens = []
    for one in events:
        printer.show(one if isinstance(one, Event) else one.as_event())
        screens.append(file.getvalue())
    return screens


def test_text_grows_on_one_line():
    """Each chunk adds its words, and the whole, which repeats them, only ends the line (EVT-15)."""
    screens = shown(chunk("Good ", 0), chunk("day", 1), event("Good day"))
    assert screens == ["[agent]: Good ", "[agent]: Good day", "[agent]: Good day\n"]


@pytest.mark.parametrize("whole", ["Good day, sir", "Bad day"])
def test_the_whole_counts(whole):
    """What was lost is added, and what has changed since is written anew."""
    last = shown(chunk("Good ", 0), event(whole))[-1]
    assert last.splitlines()[-1] == f"[agent]: {whole}"
    assert last.count("Good") == 1


def test_a_retried_text_begins_on_a_new_line():
    """TRAP-6: the abandoned text stays above, cut off."""
    last = shown(chunk("Hello wor"), chunk("Good ", attempt=2), event("Good day"))[-1]
    assert last == "[agent]: Hello wor\n[agent]: Good day\n"


def test_calls_follow_their_text():
    """What else the event holds comes below its text, which is not repeated."""
    whole = event("Let me see")
    whole.content.parts.append(types.Part(function_call=types.FunctionCall(name="look", args={})))
    last = shown(chunk("Let me "), whole)[-1]
    assert last == "[agent]: Let me see\n[agent]: calls look()\n"


def test_agents_that_speak_at_once_do_not_mix():
    """One text grows; the other is there when it has ended, never without its beginning."""
    left = [chunk("l1 ", 0, event_id="e-1.1"), chunk("l2", 1, event_id="e-1.1")]
    right = [chunk("r1 ", 0, event_id="e-1.2"), chunk("r2", 1, event_id="e-1.2")]
    wholes = [event("l1 l2", event_id="e-1.1"), event("r1 r2", event_id="e-1.2")]
    last = shown(left[0], right[0], left[1], wholes[0], right[1], wholes[1])[-1]
    assert last == "[agent]: l1 l2\n[agent]: r1 r2\n"


def test_an_error_leaves_the_line():
    """The text that broke off stays, and the error has a line of its own."""
    failed = Event(id="e-1.end", author="agent", error_code="ModelError", error_message="no")
    last = shown(chunk("It is "), failed)[-1]
    assert last == "[agent]: It is \n[agent]: ModelError: no\n"


def test_control_characters_are_written_out():
    """S24: a model cannot move the cursor, with chunks as little as with whole texts."""
    assert "\x1b" not in shown(chunk("a\x1b[2J"), event("a\x1b[2J"))[-1]


def test_as_json_every_chunk_is_a_line():
    """With its attempt and index, for programs that put the text together themselves."""
    lines = shown(chunk("a"), event("a"), as_json=True)[-1].splitlines()
    first, last = map(Event.model_validate_json, lines)
    assert (first.partial, first.custom_metadata) == (True, {"partial": {"attempt": 1, "index": 0}})
    assert last.partial is None


def test_what_happens_beside_a_growing_text_waits_for_its_end():
    """AGT-33, EVT-15: the text is not cut off and printed again; nothing is lost at a failure."""

    def on(branch: str, one: Event) -> Event:
        return one.model_copy(update={"branch": branch})

    growing = on("par.a", chunk("l1 ", 0, event_id="e-1.1").as_event())
    beside = on("par.b", event("r", event_id="e-1.2"))
    whole = on("par.a", event("l1 l2", event_id="e-1.1"))
    assert shown(growing, beside, whole)[-1] == "[agent]: l1 l2\n[agent]: r\n"
    failure = event("", event_id="e-1.end").model_copy(update={"error_code": "Broken"})
    last = shown(growing, beside, failure)[-1]
    assert "[agent]: r" in last
    assert "Broken" in last


async def told(failure: Event, error: Exception | None) -> list[Event]:
    """What `without_raised` leaves of a text, a failure, and the error that follows."""

    async def feed() -> AsyncIterator[Event]:
        yield event("hello")
        yield failure
        if error is not None:
            raise error

    seen: list[Event] = []
    with suppress(LookupError):
        async for one in without_raised(feed()):
            seen += [one]
    return seen


@pytest.mark.parametrize(
    ("text", "error", "events"),
    [
        (None, LookupError("no such city"), 1),
        (None, LookupError("another error"), 2),
        (None, None, 2),
        ("half a sentence", LookupError("no such city"), 2),
    ],
)
async def test_an_error_that_is_raised_is_told_once(text, error, events):
    """The event that only repeats it is left out; every other one is shown."""
    content = text and types.ModelContent(text)
    failure = Event(
        author="a", content=content, error_code="LookupError", error_message="no such city"
    )
    assert len(await told(failure, error)) == events


def test_sentences_of_a_table_are_wrapped_on_a_terminal(monkeypatch, capsys):
    """Ids are not; and in a pipe each row is one line."""
    row = ("c" * 20, "it may run again, with the same idempotency key")
    print_table(("id", "then"), [row], sentences=1)
    assert "  ".join(row) in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("id", "then"), [row], sentences=1)
    lines = capsys.readouterr().out.splitlines()
    assert row[0] in lines[1]
    assert len(lines) > 3
    assert max(map(len, lines[1:])) <= 40


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (Event(author="wf", output={"n": 1}, node_path="wf@1/a@2"), '[wf]: a: {"n": 1}'),
        (Event(author="wf", output="é", node_path="wf@1/a@1"), '[wf]: a: "é"'),
        (Event(author="a", output=False, node_path="wf@1/a@1"), "[a]: false"),
        (Event(author="a", message="Hi", output="Hi", node_path="wf@1/a@1"), "[a]: Hi"),
    ],
)
def test_an_output_is_json_behind_its_node(one, line):
    """A text that is the output is written once."""
    assert shown(one) == [f"{line}\n"]


def test_a_question_is_its_message():
    """Who answers sees the payload and the schema below, with the commands."""
    asked = request_input_event(RequestInput(message="Good?", payload=1))
    asked.author, asked.node_info.path = "wf", "wf@1/ask@1"
    assert shown(asked) == ["[wf]: ask asks: Good?\n"]
