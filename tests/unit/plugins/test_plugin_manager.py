"""The plugins of an app, run in their order."""

import asyncio
import logging
import threading

import pytest
from google.genai import types

from durable_adk.errors import (
    AgentDefinitionError,
    CallbackError,
    StoreUnavailableError,
    as_detail,
    from_detail,
)
from durable_adk.events import Event, EventActions
from durable_adk.plugins import BasePlugin, PluginManager
from durable_adk.plugins.base_plugin import HOOKS
from durable_adk.plugins.plugin_manager import replaced
from tests.support.waiting import PATIENCE, forever

ON_EVENT = "on_event_callback"


class Probe(BasePlugin):
    """Notes that it was asked, then answers or raises."""

    def __init__(self, name, asked, answer=None):
        super().__init__(name)
        self.asked, self.answer = asked, answer

    async def before_tool_callback(self, *, tool, tool_args, tool_context):
        self.asked.append(self.name)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def on_run_error_callback(self, *, invocation_context, error):
        await self.before_tool_callback(tool=None, tool_args=None, tool_context=None)

    async def close(self):
        await self.before_tool_callback(tool=None, tool_args=None, tool_context=None)


def manager(*answers):
    """Plugins p0, p1, ... with these answers, and the list of those asked."""
    asked = []
    plugins = [Probe(f"p{i}", asked, answer) for i, answer in enumerate(answers)]
    return PluginManager(plugins), asked


async def before_tool(plugins):
    """Run one hook."""
    return await plugins.run("before_tool_callback", tool=None, tool_args=None, tool_context=None)


def content(text):
    """A model's text."""
    return types.Content(role="model", parts=[types.Part(text=text)])


def test_names_are_unique():
    """PLG-1: two plugins of one name are refused with a ValueError that says which."""
    with pytest.raises(AgentDefinitionError, match="'p'") as refusal:
        PluginManager([BasePlugin("p"), BasePlugin("q"), BasePlugin("p")])
    assert isinstance(refusal.value, ValueError)


def test_a_plugin_is_found_by_its_name():
    """A plugin's owner gets back the object that was registered."""
    plugin = BasePlugin("p")
    assert PluginManager([plugin]).get_plugin("p") is plugin
    assert PluginManager([plugin]).get_plugin("q") is None


def test_the_hooks_are_those_of_any_plugin():
    """One plugin with a hook is enough, none means nothing to schedule."""
    assert PluginManager().hooks() == frozenset()
    plugins = PluginManager([BasePlugin("none"), Probe("some", [])])
    assert plugins.hooks() == {"before_tool_callback", "on_run_error_callback"}


@pytest.mark.parametrize("answer", [{}, 0, "", False, LookupError])
async def test_the_first_answer_ends_the_round(answer):
    """PLG-3, CB-5: plugins run in their order until one returns anything but None."""
    plugins, asked = manager(None, answer, "unheard")
    assert await before_tool(plugins) == answer
    assert asked == ["p0", "p1"]


async def test_without_an_answer_everybody_is_asked():
    """PLG-2: None means continue."""
    plugins, asked = manager(None, None, None)
    assert await before_tool(plugins) is None
    assert asked == ["p0", "p1", "p2"]


async def test_a_sync_hook_may_block():
    """A hook that is no coroutine function runs in a thread of its own (OPEN-7)."""

    class Sync(BasePlugin):
        def before_tool_callback(self, **_):
            return threading.current_thread()

    answer = await before_tool(PluginManager([Sync("sync")]))
    assert answer is not threading.current_thread()


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), asyncio.CancelledError()])
async def test_an_exception_names_plugin_and_hook(error):
    """PLG-4: whatever a hook raises ends the run as a RuntimeError, also across a process."""
    plugins, asked = manager(error, None)
    with pytest.raises(RuntimeError, match=r"'p0'.*'before_tool_callback'") as raised:
        await before_tool(plugins)
    assert asked == ["p0"]
    assert isinstance(raised.value, CallbackError)
    arrived = from_detail(as_detail(raised.value))
    assert isinstance(arrived, RuntimeError)
    assert str(arrived) == str(raised.value)


async def test_a_store_that_is_away_ends_no_run():
    """A transient error stays one, so the step is retried (D11)."""
    plugins, _ = manager(StoreUnavailableError("away"))
    with pytest.raises(StoreUnavailableError):
        await before_tool(plugins)


async def test_a_cancellation_is_no_fault_of_a_plugin():
    """A step that is cancelled while a hook runs stays cancelled."""

    class Slow(BasePlugin):
        async def before_tool_callback(self, **_):
            await forever()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await before_tool(PluginManager([Slow("slow")]))


async def test_a_notice_reaches_all_and_changes_nothing(caplog):
    """PLG-2: error notices have no answer, and a plugin that fails at one is only logged."""
    plugins, asked = manager("answer", ValueError("boom"), None)
    with caplog.at_level(logging.ERROR):
        await plugins.notify("on_run_error_callback", invocation_context=None, error=KeyError())
    assert asked == ["p0", "p1", "p2"]
    [record] = caplog.records
    assert (record.msg, record.plugin) == ("plugin.notice_failed", "p1")


async def test_close_reaches_all_and_names_who_failed():
    """A plugin that raises or hangs keeps no other from closing, nor the caller for long."""

    class Hanging(BasePlugin):
        async def close(self):
            await forever()

    asked = []
    failing = Probe("bad", asked, ValueError("stuck"))
    plugins = PluginManager([failing, Hanging("slow"), Probe("good", asked)], 0.05)
    with pytest.raises(RuntimeError, match=r"'bad' raised ValueError.*'slow' did not") as raised:
        await asyncio.wait_for(plugins.close(), PATIENCE)
    assert "good" not in str(raised.value)
    assert asked == ["bad", "good"]


async def test_close_names_a_plugin_whose_error_has_no_text():
    """The others' failures are named too, though an exception's `__str__` raises."""

    class UnreadableError(ValueError):
        def __str__(self):
            raise RuntimeError

    failing = [Probe("bad", [], UnreadableError()), Probe("worse", [], ValueError("\ud800"))]
    with pytest.raises(RuntimeError, match=r"'bad' raised UnreadableError.*'worse'") as raised:
        await PluginManager(failing).close()
    str(raised.value).encode()


async def test_close_is_silent_when_all_is_well():
    """The base's close does nothing."""
    await PluginManager([BasePlugin("p")]).close()


def test_a_replacement_keeps_what_it_does_not_set():
    """PLG-6: the committed event has the replacement's fields, and the original's for the rest."""
    actions = EventActions(state_delta={"k": 1})
    event = Event(
        id="e-1.1", invocation_id="e-1", timestamp=1.0, author="a", branch="x",
        content=content("old"), actions=actions,
    )  # fmt: skip
    new = replaced(event, Event(author="b", content=content("new")))
    assert (new.author, new.text, new.branch, new.actions) == ("b", "new", "x", actions)
    assert event.text == "old"
    emptied = replaced(event, Event(actions=EventActions(), content=None))
    assert (emptied.actions, emptied.content, emptied.author) == (EventActions(), None, "a")


def test_a_replacement_is_the_same_event():
    """RUN-26: id, invocation and time are never the replacement's, so a repeat is recognised."""
    event = Event(id="e-1.1", invocation_id="e-1", timestamp=1.0, author="a")
    new = replaced(event, Event(id="x", invocation_id="y", timestamp=2.0, author="b"))
    assert (new.id, new.invocation_id, new.timestamp, new.author) == ("e-1.1", "e-1", 1.0, "b")


@pytest.mark.parametrize(
    "hook", [hook for hook in HOOKS if "tool" not in hook and "_error" not in hook]
)
async def test_an_answer_of_another_type_names_plugin_and_hook(hook):
    """The error says what to return."""
    plugin = BasePlugin("p")
    setattr(plugin, hook, lambda **_: "text")
    event = Event(author="a")
    with pytest.raises(CallbackError, match=rf"'p' answered {hook} with str; return \w+ or None"):
        await PluginManager([plugin]).run(hook, **({"event": event} if hook == ON_EVENT else {}))


@pytest.mark.parametrize("in_place", [True, False])
async def test_a_plugin_that_makes_an_event_partial_is_named(in_place):
    """Such an event could not be stored; a chunk may stay one."""

    class Partial(BasePlugin):
        async def on_event_callback(self, *, invocation_context, event):
            event.partial = True
            return None if in_place else event

    plugins = PluginManager([Partial("p")])
    with pytest.raises(CallbackError, match="'p' answered on_event_callback with partial=True"):
        await plugins.run(ON_EVENT, invocation_context=None, event=Event(author="a"))
    await plugins.run(ON_EVENT, invocation_context=None, event=Event(author="a", partial=True))
