"""A limit to how much of the conversation a model is shown."""

import pytest
from google.genai import types
from hypothesis import given, strategies as st

from durable_adk.errors import AgentDefinitionError
from durable_adk.models import LlmRequest
from durable_adk.plugins import ContextFilterPlugin


def content(word):
    """From u1 a user's message, m1 a model's, Cx a call with id x, Rx its response, f a quote."""
    kind, rest = word[0], word[1:]
    match kind:
        case "C":
            part = types.Part(function_call=types.FunctionCall(id=rest or None, name="t"))
        case "R":
            answer = types.FunctionResponse(id=rest or None, name="t", response={})
            part = types.Part(function_response=answer)
        case "f":
            part = types.Part(text="For context: [b] said something")
        case _:
            part = types.Part(text=word)
    return types.Content(role="model" if kind in "mC" else "user", parts=[part])


def word(item):
    """The inverse of `content`."""
    [part] = item.parts
    if part.function_call:
        return f"C{part.function_call.id or ''}"
    if part.function_response:
        return f"R{part.function_response.id or ''}"
    return "f" if part.text.startswith("For context:") else part.text


async def kept(words, **options):
    """What the model is shown of a conversation."""
    request = LlmRequest(contents=[content(each) for each in words.split()])
    plugin = ContextFilterPlugin(**options)
    await plugin.before_model_callback(callback_context=None, llm_request=request)
    return " ".join(word(item) for item in request.contents)


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (1, "u4"),
        (2, "u3 m3 u4"),
        (3, "u2 C R m2 u3 m3 u4"),
        (4, "u1 m1 u2 C R m2 u3 m3 u4"),
        (9, "u1 m1 u2 C R m2 u3 m3 u4"),
        (None, "u1 m1 u2 C R m2 u3 m3 u4"),
    ],
)
async def test_the_latest_invocations_stay(keep, left):
    """PLG-7: whole invocations, counted from the end, the current one among them."""
    assert await kept("u1 m1 u2 C R m2 u3 m3 u4", num_invocations_to_keep=keep) == left


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("u1 C R C R", "u1 C R C R"),
        ("u1 m1 u2 u2b m2", "u2 u2b m2"),
        ("u1 m1 u2 f C R f", "u2 f C R f"),
        ("u1 f u2 m2", "u2 m2"),
        ("m0 C R", "m0 C R"),
        ("", ""),
    ],
)
async def test_only_a_users_message_begins_an_invocation(words, left):
    """Not a tool's result, not a quotation of another agent, not a second message in a row."""
    assert await kept(words, num_invocations_to_keep=1) == left


async def test_a_late_response_brings_its_call():
    """A response that stays keeps its call, and the responses that brings keep theirs."""
    assert await kept("u1 Ca u2 Ra u3", num_invocations_to_keep=2) == "Ca u2 Ra u3"
    assert await kept("u1 Cb u2 Ca Rb u3 Ra", num_invocations_to_keep=1) == "Cb u2 Ca Rb u3 Ra"


async def test_an_id_used_again_means_the_latest_call():
    """Providers that count their ids anew in each turn do not keep the whole history alive."""
    words = "u1 C1 R1 u2 C1 R1 u3 C1 R1"
    assert await kept(words, num_invocations_to_keep=1) == "u3 C1 R1"


@given(
    words=st.lists(st.sampled_from(["u", "m", "f", "Ca", "Cb", "Ra", "Rb"]), max_size=12),
    keep=st.integers(1, 3),
)
async def test_no_response_is_left_without_its_call(words, keep):
    """Whatever the conversation, every response that had its call before it still has it."""

    def lone(items):
        return {i for i, w in enumerate(items) if w[0] == "R" and f"C{w[1]}" not in items[:i]}

    left = (await kept(" ".join(words), num_invocations_to_keep=keep)).split()
    cut = len(words) - len(left)
    assert left == words[cut:]
    assert {cut + position for position in lone(left)} <= lone(words)


async def test_it_cuts_in_steps():
    """With remove_amount, nothing goes until so many invocations can go at once."""
    options = {"num_invocations_to_keep": 1, "remove_amount": 2}
    assert await kept("u1 m1 u2", **options) == "u1 m1 u2"
    assert await kept("u1 m1 u2 m2 u3", **options) == "u3"


async def test_a_custom_filter_has_the_last_word():
    """It sees what the count has left, and may be sync or async."""

    async def drop_first(contents):
        return contents[1:]

    options = {"num_invocations_to_keep": 2}
    assert await kept("u1 m1 u2 m2 u3", **options, custom_filter=drop_first) == "m2 u3"
    assert await kept("u1 m1 u2", custom_filter=lambda contents: contents[-1:]) == "u2"


async def test_a_custom_filter_that_fails_leaves_all():
    """As in ADK: nothing is cut, and the log has its error."""
    options = {"num_invocations_to_keep": 1}
    assert await kept("u1 m1 u2", **options, custom_filter=lambda _: 1 / 0) == "u1 m1 u2"


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize("option", ["num_invocations_to_keep", "remove_amount"])
def test_numbers_that_make_no_sense_are_refused(option, number):
    """A filter that would keep nothing, or everything, is not what was meant."""
    with pytest.raises(AgentDefinitionError):
        ContextFilterPlugin(**{option: number})
