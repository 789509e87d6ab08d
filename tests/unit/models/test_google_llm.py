"""Gemini through the real google-genai client, against a stub on loopback."""

import asyncio
import copy
import email.utils
import socket
import threading
from datetime import UTC, datetime, timedelta

import pytest
from google.genai import types
from pydantic import SecretStr

from durable_adk.errors import ModelError, ModelUnavailableError
from durable_adk.models import google_llm
from durable_adk.models.base_llm import GO_ON, NO_MESSAGE
from durable_adk.models.google_llm import Gemini
from durable_adk.models.llm_request import LlmRequest
from tests.support.waiting import PATIENCE

KEY = "stub-key-5e1f"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def gemini(gemini_stub):
    model = Gemini(base_url=gemini_stub.url, api_key=SecretStr(KEY), timeout=PATIENCE)
    yield model
    await model.aclose()


def asking(text="hi", **config):
    return LlmRequest(
        contents=[types.UserContent(text)], config=types.GenerateContentConfig(**config)
    )


async def ask(model, request=None, *, stream=False):
    request = request or asking()
    return [response async for response in model.generate_content_async(request, stream)]


def said(*parts, **candidate):
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, **candidate}], "modelVersion": "stub-1"}


def refusal(code, status="UNAVAILABLE", message="no", details=()):
    error = {"code": code, "status": status, "message": message, "details": list(details)}
    return {"status": code, "body": {"error": error}}


async def test_one_whole_answer(gemini_stub, gemini):
    """A call without streaming yields exactly one whole response (FLW-76)."""
    gemini_stub.script = ["Paris"]
    (response,) = await ask(gemini)
    assert response.content.parts[0].text == "Paris"
    assert response.partial is None
    assert response.finish_reason == types.FinishReason.STOP
    assert response.usage_metadata.total_token_count == 12
    assert response.model_version == "stub-1"


async def test_the_client_opens_beside_the_loop(gemini_stub, gemini, monkeypatch):
    """Its certificates take a while to read; calls at the same time share one client."""
    threads = []

    class Opening(google_llm.Client):
        def __init__(self, **options):
            threads.append(threading.current_thread())
            super().__init__(**options)

    monkeypatch.setattr(google_llm, "Client", Opening)
    gemini_stub.script = ["Paris"] * 3
    answers = await asyncio.gather(*(ask(gemini) for _ in range(3)))
    assert [response.content.parts[0].text for (response,) in answers] == ["Paris"] * 3
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_the_request_arrives(gemini_stub, gemini):
    """Model, instruction, tools and key reach the provider."""
    gemini_stub.script = ["ok"]
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="look")])
    request = asking("where?", system_instruction="Be brief.", tools=[tool], temperature=0.5)
    request.model = "gemini-9-pro"
    await ask(gemini, request)
    (seen,) = gemini_stub.requests
    assert seen["path"].endswith("/models/gemini-9-pro:generateContent")
    assert seen["headers"]["x-goog-api-key"] == KEY
    assert seen["body"]["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert seen["body"]["tools"] == [{"functionDeclarations": [{"name": "look"}]}]
    assert seen["body"]["generationConfig"]["temperature"] == 0.5


async def test_the_request_is_left_as_it_was(gemini_stub, gemini):
    """Asking does not change the caller's request (FLW-27)."""
    gemini_stub.script = ["ok"]
    request = LlmRequest(config=types.GenerateContentConfig(temperature=0.5))
    before = request.model_dump()
    await ask(gemini, request)
    assert request.model_dump() == before


@pytest.mark.parametrize(
    ("contents", "added"),
    [([], NO_MESSAGE), ([types.UserContent("a"), types.ModelContent("b")], GO_ON)],
)
async def test_the_last_word_is_the_users(gemini_stub, gemini, contents, added):
    """A request that is empty or ends with the model gets a neutral user message (FLW-28)."""
    gemini_stub.script = ["ok"]
    await ask(gemini, LlmRequest(contents=contents))
    last = gemini_stub.requests[0]["body"]["contents"][-1]
    assert last == {"role": "user", "parts": [{"text": added}]}


async def test_thought_signatures_go_back_verbatim(gemini_stub, gemini):
    """A part's thought signature survives answer, storage and the next request (FLW-30)."""
    call = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2lnbmVk"}
    gemini_stub.script = [{"body": said(call, finishReason="STOP")}, "done"]
    (response,) = await ask(gemini)
    stored = type(response).from_json(response.to_json())
    reply = types.Part.from_function_response(name="f", response={"result": 1})
    history = [types.UserContent("hi"), stored.content, types.Content(role="user", parts=[reply])]
    await ask(gemini, LlmRequest(contents=history))
    assert gemini_stub.requests[1]["body"]["contents"][1]["parts"] == [call]


async def test_a_stream_ends_with_the_whole(gemini_stub, gemini):
    """Chunks are partial; the closing response holds all parts in order, and the usage (FLW-72)."""
    call = {"functionCall": {"name": "get_capital", "args": {"country": "France"}}}
    end = said({"text": "."}, finishReason="STOP")
    end["usageMetadata"] = {"totalTokenCount": 9}
    chunks = [
        said({"text": "Hm, ", "thought": True}),
        said({"text": "maps.", "thought": True}),
        said({"text": "Let me "}),
        said({"text": "look"}, call),
        end,
    ]
    gemini_stub.script = [{"chunks": chunks}]
    *partials, whole = await ask(gemini, stream=True)
    assert [response.partial for response in partials] == [True] * 5
    assert "".join(partial.content.parts[0].text for partial in partials) == "Hm, maps.Let me look."
    assert whole.partial is None
    shapes = [(part.text, part.thought, bool(part.function_call)) for part in whole.content.parts]
    assert shapes == [
        ("Hm, maps.", True, False),
        ("Let me look", None, False),
        (None, None, True),
        (".", None, False),
    ]
    assert whole.usage_metadata.total_token_count == 9
    assert whole.finish_reason == types.FinishReason.STOP
    assert gemini_stub.requests[0]["path"].endswith(":streamGenerateContent?alt=sse")


async def test_a_blocked_stream_is_an_error_answer(gemini_stub, gemini):
    """A prompt that is blocked while streaming is one response with the reason (EVT-21)."""
    gemini_stub.script = [{"chunks": [{"promptFeedback": {"blockReason": "SAFETY"}}]}]
    (response,) = await ask(gemini, stream=True)
    assert response.error_code == "SAFETY"


async def test_an_empty_stream_is_an_error_answer(gemini_stub, gemini):
    """A stream that counts its tokens but has no candidate is an answer without a reason."""
    gemini_stub.script = [{"chunks": [{"usageMetadata": {"totalTokenCount": 3}}]}]
    (response,) = await ask(gemini, stream=True)
    assert response.error_code == "UNKNOWN_ERROR"


@pytest.mark.parametrize("code", [408, 429, 500, 503, 504])
@pytest.mark.parametrize("stream", [False, True])
async def test_overload_is_worth_asking_again(gemini_stub, gemini, code, stream):
    """408, 429 and 5xx are unavailability, and the client itself does not retry (F14)."""
    gemini_stub.script = [refusal(code), "too late"]
    with pytest.raises(ModelUnavailableError, match=str(code)) as caught:
        await ask(gemini, stream=stream)
    assert caught.value.error_type == "UNAVAILABLE"
    assert caught.value.retry_after is None
    assert len(gemini_stub.requests) == 1


async def test_retry_options_cannot_bring_retries_back(gemini_stub):
    """Retry options of the model or of a request do not make the client retry."""
    options = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=3, initial_delay=0))
    model = Gemini(base_url=gemini_stub.url, api_key=SecretStr(KEY), http_options=options)
    gemini_stub.script = [refusal(503), "too late"]
    with pytest.raises(ModelUnavailableError):
        await ask(model, asking(http_options=options))
    await model.aclose()
    assert len(gemini_stub.requests) == 1
    assert options.retry_options.attempts == 3


async def test_the_provider_says_when(gemini_stub, gemini):
    """The wait comes from the Retry-After header, in seconds or as a date, or from RetryInfo."""
    soon = datetime.now(UTC) + timedelta(seconds=60)
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}
    gemini_stub.script = [
        {**refusal(429), "headers": {"Retry-After": "7"}},
        {**refusal(429), "headers": {"Retry-After": email.utils.format_datetime(soon, True)}},
        refusal(429, details=[{"@type": "x"}, info]),
        {**refusal(429, details=[info]), "headers": {"Retry-After": "soon"}},
        {"chunks": [refusal(429, details=[info])["body"]]},
    ]
    waits, left = [], []
    for stream in (False, False, False, True, True):
        with pytest.raises(ModelUnavailableError) as caught:
            await ask(gemini, stream=stream)
        waits.append(caught.value.retry_after)
        left.append((soon - datetime.now(UTC)).total_seconds())
    assert waits[0] == 7
    assert left[1] - 1 < waits[1] <= 60  # dates have whole seconds
    assert waits[2:] == [1.5, 1.5, 1.5]


async def test_a_refusal_is_final(gemini_stub, gemini):
    """Any other 4xx fails the run, with Google's status and message."""
    gemini_stub.script = [refusal(400, "INVALID_ARGUMENT", "contents is empty")]
    with pytest.raises(ModelError, match="400 INVALID_ARGUMENT: contents is empty") as caught:
        await ask(gemini)
    assert caught.value.error_type == "INVALID_ARGUMENT"


async def test_a_refusal_that_is_not_json(gemini_stub, gemini):
    """An error page of something in between is named after its HTTP status."""
    gemini_stub.script = [{"status": 404, "body": "<h1>nothing here</h1>" + "." * 10_000}]
    with pytest.raises(ModelError, match="nothing here") as caught:
        await ask(gemini)
    assert caught.value.error_type == "HTTP_404"
    assert len(str(caught.value)) < 2000


CUTS = [
    {"cut": "reset", "chunks": [said({"text": "Par"})]},
    {"cut": "close", "chunks": [said({"text": "Par"})]},
    {"cut": "reset", "chunks": []},
    {"cut": "close", "chunks": []},
    {"cut": "close", "body": 'data: {"candidates": [{"content": {"parts"'},
]


@pytest.mark.parametrize("entry", CUTS)
async def test_a_cut_stream_is_never_a_whole_answer(gemini_stub, gemini, entry):
    """A stream that breaks off, loudly or silently, is unavailability and yields no whole (F14)."""
    gemini_stub.script = [entry]
    responses = gemini.generate_content_async(asking(), stream=True)
    if entry.get("chunks"):
        assert (await anext(responses)).partial
    with pytest.raises(ModelUnavailableError):
        await anext(responses)


@pytest.mark.parametrize("cut", ["reset", "close"])
async def test_a_cut_answer_is_unavailability(gemini_stub, gemini, cut):
    """Half an answer is worth asking again."""
    gemini_stub.script = [{"text": "x" * 1000, "cut": cut}]
    with pytest.raises(ModelUnavailableError):
        await ask(gemini)


async def test_nobody_there():
    """A refused connection is worth asking again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    model = Gemini(base_url=url, api_key=SecretStr(KEY))
    with pytest.raises(ModelUnavailableError, match="No connection"):
        await ask(model)
    await model.aclose()


async def test_an_impossible_address_is_final():
    """A base_url that can never work fails the run instead of being retried forever."""
    model = Gemini(base_url="gopher://127.0.0.1", api_key=SecretStr(KEY))
    with pytest.raises(ModelError, match="could not be asked"):
        await ask(model)
    await model.aclose()


@pytest.mark.parametrize(
    ("entry", "stream"),
    [
        ({"delay": 2, "text": "late"}, False),
        ({"delay": 2, "text": "late"}, True),
        ({"chunk_delay": 2, "chunks": [said({"text": "a"})]}, True),
    ],
)
async def test_silence_ends(gemini_stub, entry, stream):
    """A provider that is silent for longer than `timeout` is unavailable."""
    model = Gemini(base_url=gemini_stub.url, api_key=SecretStr(KEY), timeout=0.2)
    gemini_stub.script = [entry]
    with pytest.raises(ModelUnavailableError, match=r"silent for 0\.2 seconds"):
        await ask(model, stream=stream)
    await model.aclose()


async def test_a_slow_stream_may_go_on(gemini_stub, monkeypatch):
    """A stream may take longer than `timeout`: each chunk is waited for that long."""
    limits, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda limit: limits.append(limit) or timeout(limit))
    model = Gemini(base_url=gemini_stub.url, api_key=SecretStr(KEY), timeout=PATIENCE + 0.5)
    chunks = [said({"text": str(n)}) for n in range(5)] + [said({"text": "!"}, finishReason="STOP")]
    gemini_stub.script = [{"chunks": chunks}]
    *_, whole = await ask(model, stream=True)
    await model.aclose()
    assert whole.content.parts[0].text == "01234!"
    assert limits.count(PATIENCE + 0.5) == 1 + len(chunks) + 1  # the first is for the head


async def test_without_a_key():
    """A missing key fails the run and names the remedy."""
    with pytest.raises(ModelError, match="GEMINI_API_KEY"):
        await ask(Gemini())


async def test_the_key_stays_secret(gemini_stub, gemini, monkeypatch):
    """Neither the model's text forms nor an error that repeats the key show it."""
    monkeypatch.setenv("GEMINI_API_KEY", "env-key-77")
    echo = f"API key {KEY} or env-key-77 not valid"
    gemini_stub.script = [refusal(400, "INVALID_ARGUMENT", echo)]
    with pytest.raises(ModelError, match=r"API key \[key\] or \[key\] not valid.*GEMINI") as caught:
        await ask(gemini)
    shown = f"{gemini!r} {gemini} {gemini.model_dump_json()} {caught.value!r} {caught.value}"
    assert KEY not in shown
    assert caught.value.__cause__ is None


async def test_cancelling_passes_through(gemini_stub, gemini):
    """Cancelling a call is not an error of the provider."""
    gemini_stub.script = [{"delay": 3}]
    task = asyncio.create_task(ask(gemini))
    await gemini_stub.arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_copy_has_connections_of_its_own(gemini_stub, gemini):
    """A model that was used can be deep-copied, and copy and original both still answer."""
    gemini_stub.script = ["one", "two", "three"]
    await ask(gemini)
    twin = copy.deepcopy(gemini)
    answers = [(await ask(model))[0].content.parts[0].text for model in (twin, gemini)]
    await twin.aclose()
    assert answers == ["two", "three"]


def test_every_loop_has_its_own_client(gemini_stub_module):
    """One model serves several event loops, one after the other."""
    stub = gemini_stub_module.GeminiStub(script=["one", "two"])
    model = Gemini(api_key=SecretStr(KEY))

    async def once():
        await stub.start()
        model.base_url = stub.url
        (response,) = await ask(model)
        await model.aclose()
        await stub.close()
        stub.port = 0
        return response.content.parts[0].text

    assert [asyncio.run(once()), asyncio.run(once())] == ["one", "two"]


async def test_partial_calls_are_not_asked_for(gemini_stub, gemini):
    """Arguments of calls are not streamed, because half a call is never run (FLW-73)."""
    gemini_stub.script = ["ok"]
    calling = types.FunctionCallingConfig(mode="ANY", stream_function_call_arguments=True)
    await ask(gemini, asking(tool_config=types.ToolConfig(function_calling_config=calling)))
    sent = gemini_stub.requests[0]["body"]["toolConfig"]["functionCallingConfig"]
    assert sent == {"mode": "ANY"}


async def test_labels_are_sent_to_vertex_only(gemini_stub, gemini):
    """The Gemini API has none, and its client refuses a request that has them."""
    gemini_stub.script = ["Paris"]
    (response,) = await ask(gemini, asking(labels={"adk_agent_name": "a"}))
    assert response.content.parts[0].text == "Paris"
    assert "labels" not in str(gemini_stub.requests)


@pytest.mark.parametrize("stream", [False, True])
async def test_closing_waits_for_the_calls_of_others(gemini_stub, gemini, stream):
    """Apps may share a model: a runner that closes it ends no call of another one."""
    chunks = [said({"text": "Paris"}), said({"text": "."}, finishReason="STOP")]
    entry = {"chunks": chunks, "delay": 0.3} if stream else {"text": "Paris.", "delay": 0.3}
    gemini_stub.script = [entry, "Rome."]
    task = asyncio.create_task(ask(gemini, stream=stream))
    await gemini_stub.arrived.wait()
    await gemini.aclose()
    *_, answer = await task
    assert answer.content.parts[0].text == "Paris."
    assert (await ask(gemini))[0].content.parts[0].text == "Rome."
