"""Credentials that a tool asks its user for (TRAP-48)."""

import logging
from typing import Any

import pytest
from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from durable_adk.auth.auth_schemes import APIKey, OpenIdConnectWithConfig
from durable_adk.auth.credential_service import InMemoryCredentialService
from durable_adk.context.activity import Context
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.graph.node import node
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.graph.workflow import Workflow
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.tools import ToolContext
from tests.conftest import MakeRunner
from tests.support.oauth import TokenProvider, token_provider
from tests.support.scripts import USER, call, gist, send, stored

SECRET = "canary-7f3a"  # noqa: S105 - looked for where it must not be
KEY = AuthConfig(
    auth_scheme=APIKey.model_validate({"type": "apiKey", "in": "header", "name": "X-Key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
    credential_key="mail",
)
CLIENT = AuthCredential(
    auth_type=AuthCredentialTypes.OPEN_ID_CONNECT,
    oauth2=OAuth2Auth(client_id="c", client_secret=SECRET),
)


async def mail(tool_context: ToolContext) -> Any:
    """Send a mail, with the user's key."""
    found = tool_context.get_auth_response(KEY)
    if found is None:
        tool_context.request_credential(KEY)
        return {"status": "asked"}
    return {"key_length": len(found.api_key or "")}


def sender() -> LlmAgent:
    """An agent whose tool needs a key."""
    return LlmAgent(name="a", model=ScriptedModel(replies=[call("mail"), "sent"]), tools=[mail])


def given(pending: Any, config: AuthConfig | None = None, *, as_json: bool = True) -> types.Content:
    """The user's answer, by default with the key in it."""
    credential = AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key=SECRET)
    config = config or KEY.model_copy(update={"exchanged_auth_credential": credential})
    form: Any = {"mode": "json", "by_alias": True, "exclude_none": True} if as_json else {}
    response = config.model_dump(**form)
    function = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=function)])


async def test_a_tool_gets_the_credential_and_nothing_else_does(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """TOL-50..55, D9: it runs again with the key, which is in no event, history or log."""
    caplog.set_level(logging.DEBUG)
    runner = await make_runner(sender(), credential_service=InMemoryCredentialService())
    events = await send(runner)
    assert [gist(event) for event in events] == [
        "a call mail",
        "a call adk_request_credential",
        "a response mail",
    ]
    (pending,) = await runner.pending(**USER)
    assert pending.kind == "credential"
    after = [event async for event in runner.run_async(**USER, new_message=given(pending))]
    assert [gist(event) for event in after] == ["a response mail", "a text sent"]
    assert after[0].get_function_responses()[0].response == {"key_length": len(SECRET)}
    assert SECRET not in "".join(event.to_json() for event in await stored(runner))
    assert SECRET not in await _history(runner, events[0].invocation_id)
    assert SECRET not in caplog.text


async def test_an_answer_may_hold_enums(make_runner: MakeRunner) -> None:
    """TOL-53: ADK's pages answer with `auth_config.model_dump()`."""
    runner = await make_runner(sender(), credential_service=InMemoryCredentialService())
    await send(runner)
    (pending,) = await runner.pending(**USER)
    answer = given(pending, as_json=False)
    after = [event async for event in runner.run_async(**USER, new_message=answer)]
    assert [gist(event) for event in after] == ["a response mail", "a text sent"]


@pytest.mark.parametrize(
    "short",
    [
        {"result": SECRET},
        {"authType": "apiKey", "apiKey": SECRET},
        {"result": {"auth_type": "apiKey", "api_key": SECRET}},
    ],
)
async def test_a_key_alone_is_an_answer(make_runner: MakeRunner, short: dict[str, Any]) -> None:
    """GR-52: as google-adk takes it; what is stored of the answer is a configuration without it."""
    runner = await make_runner(sender(), credential_service=InMemoryCredentialService())
    await send(runner)
    (pending,) = await runner.pending(**USER)
    function = types.FunctionResponse(id=pending.call_id, name=pending.name, response=short)
    answer = types.Content(role="user", parts=[types.Part(function_response=function)])
    after = [event async for event in runner.run_async(**USER, new_message=answer)]
    assert after[0].get_function_responses()[0].response == {"key_length": len(SECRET)}
    log = await stored(runner)
    assert SECRET not in "".join(event.to_json() for event in log)
    [kept] = [one for e in log if e.author == "user" for one in e.get_function_responses()]
    assert (kept.response or {})["credentialKey"] == "mail"


async def test_a_token_is_asked_for_once_and_kept(make_runner: MakeRunner) -> None:
    """TOL-53: who consents gives a code, which the tool's client exchanges; later calls have it."""
    with token_provider() as provider:
        config = by_consent(provider)
        replies = [call("mail"), call("mail"), "sent"]
        tool = reader(config)
        root = LlmAgent(name="a", model=ScriptedModel(replies=replies), tools=[tool])
        runner = await make_runner(root, credential_service=InMemoryCredentialService())
        await send(runner)
        after = await consent(runner, "42")
    results = [one.response for event in after for one in event.get_function_responses()]
    first = {"token": True, "stored": False, "secret stored": False}
    assert results == [first, first | {"stored": True}]
    assert len(provider.asked) == 1
    assert SECRET not in "".join(event.to_json() for event in await stored(runner))


def by_consent(provider: TokenProvider) -> AuthConfig:
    """What a user consents to on a page of a provider."""
    scheme = OpenIdConnectWithConfig(
        authorization_endpoint="https://provider/consent", token_endpoint=provider.url
    )
    return AuthConfig(auth_scheme=scheme, raw_auth_credential=CLIENT, credential_key="mail")


async def consent(runner: Runner, code: str) -> list[Event]:
    """Answer with the code that the page gives; what comes of it."""
    (pending,) = await runner.pending(**USER)
    asked = AuthConfig.model_validate((pending.args or {})["authConfig"])
    assert asked.exchanged_auth_credential
    assert asked.exchanged_auth_credential.oauth2
    assert asked.exchanged_auth_credential.oauth2.auth_uri
    asked.exchanged_auth_credential.oauth2.auth_code = code
    message = given(pending, asked)
    return [event async for event in runner.run_async(**USER, new_message=message)]


def reader(config: AuthConfig) -> Any:
    """A tool that tells what it finds of a credential."""

    async def mail(tool_context: ToolContext) -> Any:
        """Send a mail, with the user's token."""
        found = tool_context.get_auth_response(config)
        if found is None:
            tool_context.request_credential(config)
            return {"status": "asked"}
        kept = await tool_context.load_credential(config)
        return {
            "token": bool(found.oauth2 and found.oauth2.access_token),
            "stored": bool(kept and kept.oauth2 and kept.oauth2.access_token),
            "secret stored": bool(kept and kept.oauth2 and kept.oauth2.client_secret),
        }

    return mail


async def _history(runner: Any, invocation_id: str) -> str:
    """What Temporal holds of an invocation; in process there is none."""
    runs = runner._client.backend
    if not hasattr(runs, "_invocations"):
        return ""
    handle = runs._invocations.handle(SessionKey("app", "u", "s"), invocation_id)
    history = str((await handle.workflow.fetch_history()).events)
    assert "adk_request_credential" in history  # so that a miss below is no empty search
    return history


def graph(function: Any) -> Workflow:
    """A graph with a function that needs a credential, and one behind it."""

    def last(node_input: Any) -> Any:
        return node_input

    return Workflow(name="wf", edges=[("START", function, last)])


async def test_a_node_runs_once_there_is_a_credential(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    """GR-52, TOL-55: only the function gets it, and it is asked for once per user."""
    caplog.set_level(logging.DEBUG)
    runs: list[int] = []

    @node(auth_config=KEY)
    def mail(ctx: Context) -> int:
        runs.append(1)
        found = ctx.get_auth_response(KEY)
        return len(found.api_key or "") if found else 0

    runner = await make_runner(graph(mail), credential_service=InMemoryCredentialService())
    (asks,) = await send(runner)
    (asked,) = asks.get_function_calls()
    assert (asks.author, asked.name, asked.id) == (
        "wf",
        "adk_request_credential",
        "wf_auth:wf@1/mail@1",
    )
    args = asked.args or {}
    assert args["functionCallId"] == asked.id
    assert args["message"] == "Please provide your API key for X-Key."
    (pending,) = await runner.pending(**USER)
    assert (pending.kind, pending.original_name) == ("credential", "mail")
    assert runs == []
    after = [event async for event in runner.run_async(**USER, new_message=given(pending))]
    assert [event.output for event in after] == [len(SECRET), len(SECRET)]
    again = await send(runner)
    assert [event.output for event in again] == [len(SECRET), len(SECRET)]
    assert len(runs) == 2
    assert SECRET not in "".join(event.to_json() for event in await stored(runner))
    assert SECRET not in await _history(runner, asks.invocation_id)
    assert SECRET not in caplog.text


async def test_a_node_has_a_token_that_outlives_it(make_runner: MakeRunner) -> None:
    """GR-52: the code is exchanged before the function runs, once, though it fails and repeats."""
    with token_provider() as provider:
        config = by_consent(provider)

        @node(auth_config=config, retry_config=NodeRetryConfig(max_attempts=3, initial_delay=0.01))
        def mail(ctx: Context) -> str | None:
            found = ctx.get_auth_response(config)
            if ctx.attempt_count < 3:
                raise ValueError("no")
            return found and found.oauth2 and found.oauth2.access_token

        runner = await make_runner(graph(mail), credential_service=InMemoryCredentialService())
        await send(runner)
        after = await consent(runner, "42")
    assert [event.output for event in after if event.output] == ["t", "t"]
    assert len(provider.asked) == 1


async def test_a_code_that_gave_no_token_is_asked_for_again(make_runner: MakeRunner) -> None:
    """GR-52: the run whose request it answers gets it as it is; the next one asks."""
    with token_provider() as provider:
        config = by_consent(provider)

        @node(auth_config=config)
        def mail(ctx: Context) -> str:
            found = ctx.get_auth_response(config)
            return str(found and found.oauth2 and found.oauth2.access_token)

        runner = await make_runner(graph(mail), credential_service=InMemoryCredentialService())
        await send(runner)
        after = await consent(runner, "41")
        assert [event.output for event in after] == ["None", "None"]
        (again,) = await send(runner)
    assert [call.name for call in again.get_function_calls()] == ["adk_request_credential"]


async def test_without_a_service_the_credential_is_refused(make_runner: MakeRunner) -> None:
    """TRAP-48: it goes nowhere, and the call waits on."""
    runner = await make_runner(sender(), credential_service=InMemoryCredentialService())
    await send(runner)
    (pending,) = await runner.pending(**USER)
    before = len(await stored(runner))
    object.__setattr__(runner._client, "credentials", None)
    with pytest.raises(InvalidRequestError, match="credential_service"):
        [event async for event in runner.run_async(**USER, new_message=given(pending))]
    assert len(await stored(runner)) == before
    assert await runner.pending(**USER) == [pending]
