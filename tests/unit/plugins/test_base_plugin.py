"""The base of all plugins."""

import inspect

import pytest

from durable_adk.plugins import BasePlugin
from durable_adk.plugins.base_plugin import HOOKS


class Some(BasePlugin):
    """Defines two hooks, one of them sync."""

    async def before_run_callback(self, *, invocation_context):
        """Nothing."""

    def after_tool_callback(self, *, tool, tool_args, tool_context, result):
        """Nothing."""


class More(Some):
    """Inherits two and defines one."""

    async def before_run_callback(self, *, invocation_context):
        """Nothing else."""

    async def on_event_callback(self, *, invocation_context, event):
        """Nothing."""


def test_a_plugin_has_the_hooks_it_or_a_base_of_it_defines():
    """The runtime schedules nothing for a hook that no plugin defines (D2)."""
    assert BasePlugin("none").hooks() == frozenset()
    assert Some("some").hooks() == {"before_run_callback", "after_tool_callback"}
    assert More("more").hooks() == Some("some").hooks() | {"on_event_callback"}


def test_a_hook_put_on_an_instance_counts():
    """A plugin need not be a class of its own."""

    async def hook(**_):
        return None

    plugin = BasePlugin("patched")
    plugin.after_run_callback = hook
    assert plugin.hooks() == {"after_run_callback"}


@pytest.mark.parametrize("hook", HOOKS)
async def test_every_hook_takes_keywords_only_and_goes_on(hook):
    """PLG-2: by default nothing is answered, whatever a hook receives."""
    method = getattr(BasePlugin("p"), hook)
    parameters = inspect.signature(method).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert await method(**{parameter.name: None for parameter in parameters}) is None


def test_the_hooks_and_their_parameters_are_adks():
    """PLG-2, TRAP-50: a plugin written for ADK is called with the names it knows."""

    def names(hook):
        return list(inspect.signature(getattr(BasePlugin, hook)).parameters)[1:]

    tool = ["tool", "tool_args", "tool_context"]
    assert {hook: names(hook) for hook in HOOKS} == {
        "on_user_message_callback": ["invocation_context", "user_message"],
        "before_run_callback": ["invocation_context"],
        "on_event_callback": ["invocation_context", "event"],
        "after_run_callback": ["invocation_context"],
        "before_agent_callback": ["agent", "callback_context"],
        "after_agent_callback": ["agent", "callback_context"],
        "before_model_callback": ["callback_context", "llm_request"],
        "after_model_callback": ["callback_context", "llm_response"],
        "on_model_error_callback": ["callback_context", "llm_request", "error"],
        "before_tool_callback": tool,
        "after_tool_callback": [*tool, "result"],
        "on_tool_error_callback": [*tool, "error"],
        "on_agent_error_callback": ["agent", "callback_context", "error"],
        "on_run_error_callback": ["invocation_context", "error"],
    }
