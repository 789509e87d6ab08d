"""A log of everything an app does."""

import logging
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import BaseAgent
from durable_adk.context.activity import CallbackContext, ToolContext
from durable_adk.events import Event, EventActions
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.plugins import LoggingPlugin
from durable_adk.plugins.base_plugin import HOOKS
from durable_adk.plugins.run_context import RunContext
from durable_adk.tools import BaseTool

SAID = "s3cret"


def content() -> types.Content:
    """A text and a file."""
    blob = types.Blob(data=SAID.encode(), mime_type="text/plain")
    return types.Content(role="model", parts=[types.Part(text=SAID), types.Part(inline_data=blob)])


def arguments(scope: Any) -> dict[str, dict[str, Any]]:
    """What each hook receives, with the secret wherever people, models or tools speak."""
    run = {"invocation_context": RunContext(scope)}
    callback = {"callback_context": CallbackContext(scope)}
    agent = callback | {"agent": BaseAgent(name="a")}
    config = types.GenerateContentConfig(system_instruction=SAID)
    asked = callback | {"llm_request": LlmRequest(model="m", contents=[content()], config=config)}
    tool = {
        "tool": BaseTool(name="t", description=""),
        "tool_args": {"x": SAID},
        "tool_context": ToolContext(scope, function_call_id="c-1"),
    }
    error = {"error": ValueError(SAID)}
    event = Event(
        id="e-1.1", author="a", content=content(), actions=EventActions(state_delta={"k": SAID})
    )
    return {
        "on_user_message_callback": run | {"user_message": content()},
        "before_run_callback": run,
        "on_event_callback": run | {"event": event},
        "after_run_callback": run,
        "on_run_error_callback": run | error,
        "before_agent_callback": agent,
        "after_agent_callback": agent,
        "on_agent_error_callback": agent | error,
        "before_model_callback": asked,
        "after_model_callback": callback | {"llm_response": LlmResponse(content=content())},
        "on_model_error_callback": asked | error,
        "before_tool_callback": tool,
        "after_tool_callback": tool | {"result": {"r": SAID}},
        "on_tool_error_callback": tool | error,
    }


async def logged(caplog: Any, hook: str, scope: Any, **options: Any) -> logging.LogRecord:
    """The one record of a hook, which answers nothing."""
    with caplog.at_level(logging.INFO, logger="durable_adk"):
        assert await getattr(LoggingPlugin(**options), hook)(**arguments(scope)[hook]) is None
    [record] = caplog.records
    return record


@pytest.mark.parametrize("hook", HOOKS)
async def test_every_hook_is_logged_without_what_was_said(caplog, make_scope, hook):
    """PLG-7: ids by default, and never a word of a message, argument, result or error."""
    record = await logged(caplog, hook, make_scope())
    assert (record.invocation, record.session, record.agent) == ("e-1", "s", "a")
    assert SAID not in str(vars(record))


SILENT = {"before_run_callback", "after_run_callback", "before_agent_callback",
          "after_agent_callback"}  # fmt: skip


@pytest.mark.parametrize("hook", sorted(set(HOOKS) - SILENT))
async def test_what_was_said_is_logged_if_asked_for(caplog, make_scope, hook):
    """With content=True each hook that has a text shows it."""
    assert SAID in str(vars(await logged(caplog, hook, make_scope(), content=True)))


async def test_sizes_and_counts_tell_what_there_was(caplog, make_scope):
    """A reader sees how much was said, called and changed."""
    record = await logged(caplog, "on_event_callback", make_scope())
    assert (record.event_id, record.author, record.state_keys) == ("e-1.1", "a", ["k"])
    assert (record.parts, record.characters, record.bytes) == (2, 6, 6)


async def test_a_long_text_is_cut(caplog, make_scope):
    """A log line stays a line."""
    scope = make_scope()
    long = types.Content(role="user", parts=[types.Part(text="x" * 10_000)])
    with caplog.at_level(logging.INFO, logger="durable_adk"):
        await LoggingPlugin(content=True).on_user_message_callback(
            invocation_context=RunContext(scope), user_message=long
        )
    [record] = caplog.records
    assert (len(record.text), record.characters) == (300, 10_000)


async def test_chunks_are_not_logged(caplog, make_scope):
    """What is streamed comes whole in the end."""
    with caplog.at_level(logging.INFO, logger="durable_adk"):
        await LoggingPlugin().after_model_callback(
            callback_context=CallbackContext(make_scope()),
            llm_response=LlmResponse(content=content(), partial=True),
        )
    assert not caplog.records
