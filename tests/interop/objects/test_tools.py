"""Tools and toolsets of google-adk: what they see and what they may do."""

from typing import Any

import pytest
from fastapi.openapi.models import APIKey, OAuth2, OAuthFlowAuthorizationCode, OAuthFlows
from google.adk.agents import InvocationContext, LlmAgent
from google.adk.apps import App
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_credential import OAuth2Auth
from google.adk.events import Event
from google.adk.models import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools import AgentTool, BaseTool, FunctionTool, ToolContext, load_artifacts
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.base_toolset import BaseToolset
from google.genai import types

from durable_adk.errors import ToolError
from durable_adk.runners import InMemoryRunner
from tests.interop.objects.running import call, heard, llm, texts

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


class Probe(BaseTool):
    """A tool of a user's own, written against google-adk's base class."""

    def __init__(self, name: str = "probe") -> None:
        super().__init__(name=name, description="Looks around.")
        self.seen: dict[str, Any] = {}

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=SCHEMA
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        invocation = tool_context._invocation_context
        assert isinstance(tool_context, ToolContext)
        assert isinstance(invocation, InvocationContext)
        tool_context.state["x"] = args["x"]
        tool_context.state["user:n"] = tool_context.state.get("user:n", 0) + 1
        tool_context.actions.skip_summarization = True
        version = await tool_context.save_artifact("a.txt", types.Part(text="kept"))
        loaded = await tool_context.load_artifact("a.txt")
        found = await tool_context.search_memory("parrot")
        self.seen = {
            "agent": invocation.agent,
            "app": invocation.app_name,
            "user": tool_context.user_id,
            "message": tool_context.user_content.parts[0].text,
            "events": invocation.session.events,
            "version": version,
            "loaded": loaded.text,
            "artifacts": await tool_context.list_artifacts(),
            "memories": found.memories,
            "call": tool_context.function_call_id,
            "key": tool_context.idempotency_key,
        }
        return {"x": args["x"]}

    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        await super().process_llm_request(tool_context=tool_context, llm_request=llm_request)
        llm_request.append_instructions(["Look around first."])


async def test_a_tool_sees_a_context_of_google_adk_and_changes_ours() -> None:
    """State, artifacts and actions of the call's event are what the tool has written."""
    tool = Probe()
    agent = llm("a", call("probe", x=3), tools=[tool])
    _, answer = await heard(agent)
    assert answer.actions.state_delta == {"x": 3, "user:n": 1}
    assert answer.actions.artifact_delta == {"a.txt": 0}
    assert answer.actions.skip_summarization
    seen = tool.seen
    assert seen["agent"] is agent
    assert (seen["app"], seen["user"]) == ("InMemoryRunner", "debug_user_id")
    assert seen["message"] == "hello"
    assert all(isinstance(event, Event) for event in seen["events"])
    assert [event.author for event in seen["events"]] == ["user", "a"]
    assert (seen["version"], seen["loaded"], seen["artifacts"]) == (0, "kept", ["a.txt"])
    assert seen["call"] in seen["key"]
    assert seen["memories"] == []


async def test_a_tool_changes_the_request() -> None:
    """`process_llm_request` works on google-adk's request, and the model gets what it made."""
    asked: list[LlmRequest] = []
    agent = llm("a", lambda request: asked.append(request) or "ok", tools=[Probe()])
    await heard(agent)
    assert "Look around first." in str(asked[0].config.system_instruction)
    assert isinstance(asked[0], LlmRequest)
    assert isinstance(asked[0].tools_dict["probe"], Probe)
    assert asked[0].config.tools[0].function_declarations[0].name == "probe"


async def test_what_a_tool_raises_ends_the_run() -> None:
    """With its own class and text, as for tools of ours."""

    def broken(x: int) -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await heard(llm("a", call("broken", x=1), tools=[broken]))
    assert not issubclass(LookupError, ToolError)


async def test_a_callback_gets_the_tool_that_the_agent_was_given() -> None:
    """The same object, so callbacks may compare it or read its attributes."""
    tool = FunctionTool(lambda x: x)
    tool.name = "same"
    seen: list[Any] = []

    def before(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        seen.append(tool)

    agent = llm("a", call("same", x=1), "ok", tools=[tool], before_tool_callback=before)
    await heard(agent)
    assert seen == [tool]


class Drawer(BaseToolset):
    """A toolset that counts."""

    def __init__(self) -> None:
        super().__init__(tool_name_prefix="drawer")
        self.opened = self.closed = 0

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        self.opened += 1
        assert readonly_context is None or readonly_context.state.get("open", True)
        return [Probe()]

    async def close(self) -> None:
        self.closed += 1


async def test_a_toolset_is_asked_once_an_invocation_and_closed_at_the_end() -> None:
    """Its tools have its prefix; google-adk's own cache spares the second question."""
    drawer = Drawer()
    _, answer = await heard(llm("a", call("drawer_probe", x=1), tools=[drawer]))
    assert answer.get_function_responses()[0].response == {"x": 1}
    assert (drawer.opened, drawer.closed) == (1, 1)


async def test_an_agent_tool_of_google_adk_runs_its_agent() -> None:
    """As a run of its own, with its answer as the result."""
    inner = llm("inner", "from inside")
    events = await heard(llm("outer", call("inner", request="?"), "fine", tools=[AgentTool(inner)]))
    assert events[1].get_function_responses()[0].response == {"result": "from inside"}
    assert texts(events) == ["outer: fine"]


FLOW = OAuthFlowAuthorizationCode(
    authorizationUrl="https://bank.example/authorize",
    tokenUrl="https://bank.example/token",
    scopes={"read": "Read it."},
)
BANK = AuthConfig(
    auth_scheme=OAuth2(flows=OAuthFlows(authorizationCode=FLOW)),
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.OAUTH2,
        oauth2=OAuth2Auth(client_id="us", client_secret="ours"),  # noqa: S106
    ),
)


async def test_an_authenticated_function_tool_waits_for_the_credential() -> None:
    """It asks once; the answer makes it run with what the user gave."""

    def balance(credential: AuthCredential) -> str:
        return f"as {credential.oauth2.access_token}"

    tool = AuthenticatedFunctionTool(func=balance, auth_config=BANK)
    agent: LlmAgent = llm("a", call("balance"), "done", tools=[tool])
    async with InMemoryRunner(agent) as runner:
        await runner.run_debug("hello", quiet=True)
        [pending] = await runner.pending(user_id="debug_user_id", session_id="debug_session_id")
        given = BANK.model_copy(deep=True)
        given.exchanged_auth_credential = AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=OAuth2Auth(client_id="us", access_token="secret"),  # noqa: S106
        )
        response = types.FunctionResponse(
            id=pending.call_id,
            name="adk_request_credential",
            response=given.model_dump(mode="json", by_alias=True, exclude_none=True),
        )
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        events = [
            event
            async for event in runner.run_async(
                user_id="debug_user_id", session_id="debug_session_id", new_message=message
            )
        ]
    responses = [one for event in events for one in event.get_function_responses()]
    assert [one.response for one in responses] == [{"result": "as secret"}]
    assert texts(events) == ["a: done"]


async def test_instructions_that_a_tool_queues_reach_the_model() -> None:
    """`LoadArtifactsTool` tells of the artifacts in that way."""
    asked: list[LlmRequest] = []

    async def keep(name: str, tool_context: ToolContext) -> str:
        await tool_context.save_artifact(name, types.Part(text="kept"))
        return "done"

    def reply(request: LlmRequest) -> Any:
        asked.append(request)
        return call("keep", name="report.txt") if len(asked) == 1 else "fine"

    await heard(llm("a", reply, reply, tools=[keep, load_artifacts]))
    assert "report.txt" in str(asked[1].config.system_instruction)


class Locked(Drawer):
    """A toolset that needs a key to be opened."""

    KEY = AuthConfig(
        auth_scheme=APIKey(**{"in": "header", "name": "X-Key"}),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.API_KEY,
            api_key="the key",
        ),
    )

    def get_auth_config(self) -> AuthConfig:
        return self.KEY

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        credential = readonly_context.get_credential(self.KEY.credential_key)
        return [Probe("open")] if credential and credential.api_key == "the key" else []


async def test_a_toolset_gets_its_credential() -> None:
    """Before it is asked for its tools, for the model and for a call."""
    _, answer = await heard(llm("a", call("drawer_open", x=1), tools=[Locked()]))
    assert answer.get_function_responses()[0].response == {"x": 1}


class Unlocked(Locked):
    """A toolset whose key nobody has; without it, it raises, has no tools, or has some."""

    KEY = BANK

    def __init__(self, without: Any) -> None:
        super().__init__()
        self.without = without

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        assert readonly_context.get_credential(self.KEY.credential_key) is None
        if isinstance(self.without, Exception):
            raise self.without
        return self.without


@pytest.mark.parametrize("without", [[], PermissionError("locked")], ids=["none", "raises"])
async def test_a_toolset_without_its_credential_is_missed(without: Any) -> None:
    """The model's event says which toolset had no tools for want of what."""
    [said] = await heard(llm("a", "I cannot.", tools=[Unlocked(without)]))
    assert said.custom_metadata == {"adk_missing_toolsets": ["Unlocked (MissingCredentialError)"]}


async def test_a_toolset_that_has_tools_without_its_credential_is_used() -> None:
    """As those of google-adk whose tools ask by themselves."""
    _, answer = await heard(llm("a", call("drawer_open", x=1), tools=[Unlocked([Probe("open")])]))
    assert answer.get_function_responses()[0].response == {"x": 1}


class Noting(AgentTool):
    """An agent tool of a user's own, whose run is google-adk's."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return {"noted": await super().run_async(args=args, tool_context=tool_context)}


class Listening(BasePlugin):
    """Notes which agents run."""

    def __init__(self) -> None:
        super().__init__("listening")
        self.heard: list[str] = []

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        self.heard.append(agent.name)


async def test_an_agent_tool_of_a_class_of_its_own_passes_plugins_on() -> None:
    """Its run is google-adk's, which finds the app's plugins in the context."""
    listening = Listening()
    inner = Noting(llm("inner", "from inside"))
    outer = llm("outer", call("inner", request="?"), "fine", tools=[inner])
    events = await heard(App(name="app", root_agent=outer, plugins=[listening]))
    assert events[1].get_function_responses()[0].response == {"noted": "from inside"}
    assert listening.heard == ["outer", "inner"]


async def test_an_error_hook_answers_for_a_tool_that_has_written() -> None:
    """The error hook's answer is the result; what the tool wrote before stays, as in ADK."""

    def broken(x: int, tool_context: ToolContext) -> None:
        tool_context.state["written"] = x
        raise LookupError("nothing there")

    def recover(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext, error: Any) -> Any:
        assert isinstance(error, LookupError)
        return {"recovered": True}

    agent = llm("a", call("broken", x=1), "ok", tools=[broken], on_tool_error_callback=recover)
    events = await heard(agent)
    assert events[1].get_function_responses()[0].response == {"recovered": True}
    assert events[1].actions.state_delta == {"written": 1}
