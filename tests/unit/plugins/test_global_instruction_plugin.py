"""One instruction for all agents of an app."""

import pytest
from google.genai import types

from durable_adk.context.activity import CallbackContext
from durable_adk.errors import InstructionError
from durable_adk.models import LlmRequest
from durable_adk.plugins import GlobalInstructionPlugin


async def instructed(scope, instruction, before=None):
    """The system instruction after the plugin, which was `before`."""
    request = LlmRequest(config=types.GenerateContentConfig(system_instruction=before))
    plugin = GlobalInstructionPlugin(instruction)
    context = CallbackContext(scope)
    answer = await plugin.before_model_callback(callback_context=context, llm_request=request)
    assert answer is None
    assert context.state.collect_delta() == {}
    return request.config.system_instruction


async def test_a_template_is_filled_from_state(make_scope, artifacts):
    """AGT-13: state and artifacts, the artifacts being the session's."""
    part = types.Part(text="rules")
    where = {"app_name": "app", "user_id": "u", "session_id": "s"}
    await artifacts.save_artifact(**where, filename="r", artifact=part)
    scope = make_scope({"user:name": "Ada"})
    assert await instructed(scope, "{user:name}: {artifact.r}") == "Ada: rules"


async def test_a_missing_variable_is_an_error(make_scope):
    """AGT-13: a template that cannot be filled is not sent."""
    with pytest.raises(InstructionError):
        await instructed(make_scope(), "{nope}")


async def test_a_provider_is_taken_as_it_is(make_scope):
    """AGT-12: sync or async, its text is no template; None and empty say nothing."""

    async def provider(context):
        return f"{context.state['x']} {{x}}"

    scope = make_scope({"x": 1})
    assert await instructed(scope, provider) == "1 {x}"
    assert await instructed(scope, lambda context: f"sync {context.agent_name}") == "sync a"
    assert await instructed(scope, lambda _: None, "own") == "own"
    assert await instructed(scope, "", "own") == "own"


PART = types.Part(text="own")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "G"),
        ("", "G"),
        ("own", "G\n\nown"),
        (["own", PART], ["G", "own", PART]),
        (PART, ["G", PART]),
        (
            types.Content(role="system", parts=[PART]),
            types.Content(role="system", parts=[types.Part(text="G"), PART]),
        ),
    ],
)
async def test_it_comes_first_in_every_form(make_scope, before, after):
    """AGT-14: before the agent's own, whichever form the request's instruction has."""
    assert await instructed(make_scope(), "G", before) == after
