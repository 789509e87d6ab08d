"""Logs."""

import json
import logging

import pytest
from temporalio.exceptions import ApplicationError

from durable_adk.errors import EncryptionKeyError
from durable_adk.log import configure, get_logger, printable


def test_a_library_is_silent(capsys):
    """Nothing is printed about normal work unless the application configures logging."""
    get_logger("durable_adk.test_silence").info("something.happened", invocation="e-1")
    assert capsys.readouterr() == ("", "")


def test_a_json_line_is_one_line_whatever_it_says(capsys, monkeypatch):
    """Line breaks and escapes in a value stay inside its JSON string (S24)."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "json")
    configure("info")
    get_logger("durable_adk.test").info("said", text="a\n\x1b[2Jb", process="p")
    [line] = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["text"], entry["level"]) == ("said", "a\n\x1b[2Jb", "info")
    assert "\x1b" not in line
    assert entry["process_"] == "p"


def test_a_console_line_moves_no_cursor(capsys, monkeypatch):
    """Escapes in a value are written out on the console (S24)."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "console")
    monkeypatch.setenv("NO_COLOR", "1")
    configure("info")
    get_logger("durable_adk.test").info("said", text="\x1b[2J", words=["\x1b[3J"])
    logging.getLogger("other").error("line\n\x1b[4J")
    output = capsys.readouterr().err
    assert "\x1b" not in output
    assert len(output.splitlines()) == 2


def test_what_a2a_logs_of_a_request_is_left_out(capsys, monkeypatch):
    """Its values, and the text of exceptions, quote what a client has sent (I19)."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "json")
    configure("info")
    logger = logging.getLogger("a2a.server.routes.jsonrpc_dispatcher")
    quoted = "the secret"
    logger.error("Request Error: Message='%s'", quoted)
    try:
        int(quoted)
    except ValueError:
        logger.exception("Failed to parse request params")
    output = capsys.readouterr().err
    assert quoted not in output
    assert "Request Error" in output
    assert "Failed to parse request params" in output
    assert "ValueError" in output


def test_a_stack_is_written_line_by_line(capsys, monkeypatch):
    """The lines of code that block a worker can be read on a console, below the event."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "console")
    monkeypatch.setenv("NO_COLOR", "1")
    configure("info")
    get_logger("durable_adk.test").warning("blocked", stack=["a.py:1", "b.py\x1b:2"])
    first, *lines = capsys.readouterr().err.splitlines()
    assert "blocked" in first
    assert lines == ["  a.py:1", "  b.py\\x1b:2"]


def test_the_environment_sets_the_level(capsys, monkeypatch):
    """DURABLE_ADK_LOG_LEVEL wins over the command's own level, unless it names none."""
    monkeypatch.setenv("DURABLE_ADK_LOG_LEVEL", "error")
    configure("info")
    get_logger("durable_adk.test").warning("hidden")
    monkeypatch.setenv("DURABLE_ADK_LOG_LEVEL", "nonsense")
    configure("warning")
    get_logger("durable_adk.test").warning("shown")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["shown"]


def test_printable_keeps_what_it_is_told_to():
    """Control characters are written out, but for those that are to stay."""
    assert printable("a\nb\x07\x1b", keep="\n") == "a\nb\\x07\\x1b"
    assert printable("Brasília → 東京") == "Brasília → 東京"


def _error(text):
    """An exception that comes from another one, as a tool's does."""
    try:
        int(text)
    except ValueError as cause:
        error = ApplicationError(text, type="ToolError")
        error.__cause__ = cause
        return error


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("level", ["info", "debug"])
def test_a_traceback_of_others_says_where_and_not_what(capsys, monkeypatch, form, level):
    """I19: Temporal's SDK logs what user code raises; at level debug we show what it said."""
    monkeypatch.setenv("DURABLE_ADK_LOG", form)
    configure(level)
    theirs = logging.getLogger("temporalio.worker")
    theirs.warning("Completing as failed", exc_info=_error("canary-7c1d"))
    output = capsys.readouterr().err
    assert ("canary-7c1d" in output) == (level == "debug")
    assert "test_log.py" in output
    assert "ValueError" in output
    if level == "info":
        assert "ToolError" in output


def test_a_traceback_says_what_is_wrong_with_the_machines(capsys):
    """An operator reads there that a store is away, or a key."""
    configure("info")
    error = EncryptionKeyError("key 'k2' is not here")
    logging.getLogger("temporalio.worker").error("Failed handling activation", exc_info=error)
    assert "key 'k2' is not here" in capsys.readouterr().err


def test_tasks_that_nobody_waited_for_say_nothing_of_their_exceptions(capsys, monkeypatch):
    """S8: asyncio puts an exception into the text of its message."""
    monkeypatch.setenv("DURABLE_ADK_LOG", "json")
    configure("info")
    logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: canary-7c1d")
    said = capsys.readouterr().err
    assert "never retrieved" in said
    assert "canary-7c1d" not in said
