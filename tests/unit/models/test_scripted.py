"""The model for tests."""

import asyncio

import pytest
from google.genai import types

from durable_adk.errors import ModelError
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.models.scripted import turn_of

CALL = types.Part.from_function_call(name="f", args={"x": 1})
USER = types.UserContent("hi")
RESULT = types.Content(
    role="user", parts=[types.Part.from_function_response(name="f", response={"result": 1})]
)
QUOTE = types.UserContent(["For context:", "[other] said: hello"])


def asking(*contents):
    return LlmRequest(contents=list(contents))


async def ask(model, *contents, stream=False):
    responses = model.generate_content_async(asking(*contents), stream)
    return [response async for response in responses]


def said(*parts):
    return types.Content(role="model", parts=list(parts))


@pytest.mark.parametrize(
    ("contents", "turn"),
    [
        ([], 0),
        ([USER], 0),
        ([USER, said(CALL), RESULT], 1),
        ([USER, said(CALL, CALL), RESULT, said(types.Part(text="ok")), USER], 2),
        ([USER, QUOTE, QUOTE], 0),
        ([USER, USER], 1),
        ([USER, said(CALL), RESULT, USER], 1),
    ],
    ids=["empty", "first", "result", "second", "quoted", "after-error", "steered"],
)
def test_the_turn_is_read_off_the_request(contents, turn):
    """The reply's number depends on the request alone, also after errors and for quoted agents."""
    assert turn_of(asking(*contents)) == turn


@pytest.mark.parametrize(
    ("reply", "parts"),
    [
        ("hello", [types.Part(text="hello")]),
        (CALL, [CALL]),
        ([types.Part(text="so"), CALL], [types.Part(text="so"), CALL]),
        (said(CALL), [CALL]),
        (LlmResponse(content=said(CALL)), [CALL]),
        (lambda request: f"{len(request.contents)}", [types.Part(text="1")]),
    ],
)
async def test_every_kind_of_reply(reply, parts):
    """Texts, parts, contents, responses and functions of the request are replies."""
    (response,) = await ask(ScriptedModel(replies=[reply]), USER)
    assert response.content.parts == parts
    assert response.content.role == "model"


async def test_a_reply_can_be_an_error():
    """An exception in the script is raised, by each retry again, and the next message continues."""
    model = ScriptedModel(replies=[ModelError("refused"), "better"])
    for _ in range(2):
        with pytest.raises(ModelError, match="refused"):
            await ask(model, USER)
    assert (await ask(model, USER, USER))[0].content.parts[0].text == "better"


async def test_the_same_request_gets_the_same_reply():
    """Two models of the same script, and the same one twice, answer a request equally."""
    models = [ScriptedModel(replies=["a", "b"]) for _ in range(2)]
    answers = [await ask(m, USER, said(CALL), RESULT) for m in (*models, models[0])]
    assert [answer[0].content.parts[0].text for answer in answers] == ["b", "b", "b"]


async def test_one_function_may_answer_everything():
    """A callable in place of the list answers every turn."""
    model = ScriptedModel(replies=lambda request: request.contents[-1].parts[0].text.upper())
    assert (await ask(model, USER))[0].content.parts[0].text == "HI"


async def test_running_out_says_so():
    """A turn beyond the script is an error that counts."""
    with pytest.raises(ModelError, match="has 1 replies and was asked for number 2"):
        await ask(ScriptedModel(replies=["a"]), USER, said(CALL), RESULT)


async def test_streaming_repeats_nothing_and_loses_nothing():
    """The partial texts joined are the text, and the last response is the whole (FLW-72)."""
    text = "  Two  words,\nthree.  "
    *partials, whole = await ask(
        ScriptedModel(replies=[[types.Part(text=text), CALL]]), USER, stream=True
    )
    assert "".join(partial.content.parts[0].text for partial in partials) == text
    assert len(partials) == 3
    assert all(partial.partial for partial in partials)
    assert not whole.partial
    assert whole.content.parts == [types.Part(text=text), CALL]


@pytest.mark.parametrize("whole", [False, True])
async def test_nothing_is_shared_with_callbacks(whole):
    """Changing a request afterwards does not change what was recorded, nor a reply the script."""
    content = said(types.Part(text="a"))
    model = ScriptedModel(replies=[LlmResponse(content=content) if whole else content])
    request = asking(types.UserContent("hi"))
    for _ in range(2):
        responses = [response async for response in model.generate_content_async(request)]
        assert responses[0].content.parts[0].text == "a"
        responses[0].content.parts[0].text = "changed"
    request.contents[0].parts[0].text = "changed"
    request.contents.append(USER)
    request.config.temperature = 1
    first = model.requests[0]
    assert [content.parts[0].text for content in first.contents] == ["hi"]
    assert first.config.temperature is None


async def test_it_can_think():
    """`delay` and `chunk_delay` pass before the answer and before each chunk."""
    model = ScriptedModel(replies=["one two"], delay=0.05, chunk_delay=0.05)
    start = asyncio.get_running_loop().time()
    await ask(model, USER, stream=True)
    assert asyncio.get_running_loop().time() - start >= 0.14
