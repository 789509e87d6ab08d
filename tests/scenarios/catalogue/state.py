"""State in every scope, written from every place and read later."""

from collections.abc import AsyncGenerator
from typing import Any

from durable_adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    ParallelAgent,
    SequentialAgent,
)
from durable_adk.events import Event, EventActions
from durable_adk.models import ScriptedModel
from durable_adk.tools import ToolContext
from tests.scenarios.parts import instruction, speaker, thinker, told_by, user_said
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call

SCOPES = ("", "user:", "app:", "temp:")
PLACES = (
    *("message", "before_agent", "before_model", "after_model", "tool"),
    *("custom", "after_agent"),
)
"""In the order in which they write."""


def _keys(place: str) -> dict[str, str]:
    return {f"{scope}{place}": f"by {place}" for scope in SCOPES}


def _stored(*places: str) -> dict[str, str]:
    return {
        key: value
        for place in places
        for key, value in _keys(place).items()
        if not key.startswith("temp:")
    }


def _writing(place: str) -> Any:
    def write(callback_context: Any, **_: Any) -> None:
        if user_said(callback_context) == "write":
            callback_context.state.update(_keys(place))

    return write


class _Writer(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        if user_said(ctx) == "write":
            yield told_by(ctx, actions=EventActions(state_delta=_keys("custom")))


_READ = ";".join(f"{{{scope}{place}?}}" for place in PLACES for scope in SCOPES)


def _seen(scopes: tuple[str, ...]) -> str:
    return ";".join(
        f"by {place}" if scope in scopes else "" for place in PLACES for scope in SCOPES
    )


@scenario(
    "STA-3 STA-6 STA-7 STA-14 STA-16 TRAP-7 TRAP-17",
    says(
        "write",
        *("writer delta", "writer call note", "writer response note", "writer text noted"),
        *("custom delta", "inner delta"),
        f"reader text {_seen(SCOPES)}",
        state_delta=_keys("message"),
    ),
    says("read", "writer text nothing", f"reader text {_seen(SCOPES[:3])}"),
    says("read", "writer text nothing", f"reader text {_seen(SCOPES[1:3])}", place="u/t"),
    says("read", "writer text nothing", f"reader text {_seen(SCOPES[2:3])}", place="v/s"),
    state=_stored(*PLACES),
    elsewhere={
        "u/t": {key: value for key, value in _stored(*PLACES).items() if ":" in key},
        "v/s": {key: value for key, value in _stored(*PLACES).items() if key.startswith("app:")},
    },
)
def every_scope_from_every_place() -> BaseAgent:
    """Read in the same run, in the next one, in another session and by another user."""

    def note(tool_context: ToolContext) -> str:
        """Write from a tool."""
        tool_context.state.update(_keys("tool"))
        return "noted"

    def reply(request: Any) -> Any:
        said = request.contents[-1].parts[0]
        if said.function_response:
            return "noted"
        return call("note") if said.text == "write" else "nothing"

    writer = thinker(
        "writer",
        reply,
        tools=[note],
        before_agent_callback=_writing("before_agent"),
        before_model_callback=_writing("before_model"),
        after_model_callback=_writing("after_model"),
    )
    inner = SequentialAgent(
        name="inner",
        sub_agents=[writer, _Writer(name="custom")],
        after_agent_callback=_writing("after_agent"),
    )
    reader = thinker("reader", instruction, instruction=_READ)
    return SequentialAgent(name="seq", sub_agents=[inner, reader])


@scenario(
    "SSN-4 STA-7",
    says("go", "a text plain 1, user 2, app 3, temp"),
    initial={"plain": 1, "user:own": 2, "app:all": 3, "temp:note": 4},
    state={"plain": 1, "user:own": 2, "app:all": 3},
)
def a_session_begins_with_state() -> BaseAgent:
    words = "plain {plain}, user {user:own}, app {app:all}, temp {temp:note?}"
    return thinker("a", instruction, instruction=words)


@scenario(
    "TRAP-37",
    says("one", "a text one", "b text one", "c text one one"),
    says("two", "a text two", "b text two", "c text two two"),
    state={"user:answer": "two"},
)
def an_answer_is_kept_in_another_scope() -> BaseAgent:
    def repeat(request: Any) -> str:
        words = [content.parts[0].text for content in request.contents]
        return [word for word in words if word in ("one", "two")][-1]

    return SequentialAgent(
        name="seq",
        sub_agents=[
            thinker("a", repeat, output_key="user:answer"),
            thinker("b", repeat, output_key="temp:answer"),
            thinker("c", instruction, instruction="{user:answer} {temp:answer}"),
        ],
    )


@scenario(
    "SSN-14 STA-11",
    says(
        "go",
        "a call set_all",
        "a response set_all",
        "a call set_all",
        "a response set_all",
        "a text gone: , kept: []",
    ),
    initial={"gone": "here", "kept": [1]},
    state={"gone": None, "nested": {"b": {"deep": 2}}, "kept": [], "nothing": None},
)
def the_last_writer_of_a_key_wins() -> BaseAgent:
    """A nested value is replaced, None and what is empty are values."""

    def set_all(nested: dict[str, Any], tool_context: ToolContext) -> None:
        """Set."""
        tool_context.state["nested"] = nested
        tool_context.state.update({"gone": None, "kept": [], "nothing": None})

    def reply(request: Any) -> Any:
        script = [
            call("set_all", nested={"a": {"deep": 1}}),
            call("set_all", nested={"b": {"deep": 2}}),
            instruction(request),
        ]
        return script[sum(content.role == "model" for content in request.contents)]

    return thinker("a", reply, instruction="gone: {gone}, kept: {kept}", tools=[set_all])


@scenario(
    "STA-10",
    says("go", *("a call push", "a response push") * 3, "a text pushed"),
    initial={"stack": ["zero"], "deep": {"er": {"count": 0}}},
    state={"stack": ["zero", "a", "b", "c"], "deep": {"er": {"count": 3}}},
)
def a_value_is_changed_in_place() -> BaseAgent:
    def push(item: str, tool_context: ToolContext) -> int:
        """Append to the stack."""
        tool_context.state["stack"].append(item)
        tool_context.state["deep"]["er"]["count"] += 1
        return len(tool_context.state["stack"])

    script = [call("push", item=item) for item in "abc"]
    return speaker("a", *script, "pushed", tools=[push])


@scenario(
    "STA-15 DUR-5",
    says("model", "a delta", "a error ValueError", raises="ValueError"),
    says(
        "tool", "a delta", "a call fail", "a response fail", "a error KeyError", raises="KeyError"
    ),
    says("nothing", "a delta", "a text fine"),
    state={"runs": 3, "model": 1},
)
def what_was_not_committed_is_lost_with_the_run() -> BaseAgent:
    def count(callback_context: Any) -> None:
        callback_context.state["runs"] = callback_context.state.get("runs", 0) + 1

    def before_model(callback_context: Any, llm_request: Any) -> None:
        if user_said(callback_context) != "tool":
            callback_context.state["model"] = callback_context.state.get("model", 0) + 1

    def fail(tool_context: ToolContext) -> None:
        """Fail."""
        tool_context.state["lost"] = True
        raise KeyError("lost")

    def reply(request: Any) -> Any:
        said = request.contents[-1].parts[0].text
        return {"model": ValueError("no"), "tool": call("fail")}.get(said, "fine")

    return thinker(
        "a", reply, tools=[fail], before_agent_callback=count, before_model_callback=before_model
    )


@scenario(
    "STA-3 STA-19",
    says(
        "go",
        *("a call add", "a response add", "a text added"),
        *("b call add", "b response add", "b text added"),
        *("c call add", "c response add", "c text added"),
        *("par delta", "sum text a=1 b=1 c=1 all=['a', 'b', 'c']"),
    ),
    says(
        "go",
        *("a text again", "b text again", "c text again"),
        *("par delta", "sum text a=1 b=1 c=1 all=['a', 'b', 'c']"),
    ),
    state={"a": 1, "user:b": 1, "app:c": 1, "all": ["a", "b", "c"]},
    side_by_side=True,
)
def branches_write_side_by_side() -> BaseAgent:
    """Each its own key; what all of them left is there for whoever comes after."""

    def writer(name: str, key: str) -> LlmAgent:
        def add(tool_context: ToolContext) -> str:
            """Add."""
            tool_context.state[key] = tool_context.state.get(key, 0) + 1
            return name

        return speaker(name, call("add"), "added", "again", tools=[add])

    def collect(callback_context: Any) -> None:
        callback_context.state["all"] = sorted(
            name for name, key in _OWN.items() if callback_context.state.get(key)
        )

    par = ParallelAgent(
        name="par",
        sub_agents=[writer(name, key) for name, key in _OWN.items()],
        after_agent_callback=collect,
    )
    words = "a={a} b={user:b} c={app:c} all={all}"
    return SequentialAgent(
        name="seq", sub_agents=[par, thinker("sum", instruction, instruction=words)]
    )


_OWN = {"a": "a", "b": "user:b", "c": "app:c"}


@scenario(
    "STA-3 SSN-4",
    says("one", "a text s: u1 a1"),
    says("two", "a text t: u2 a2", place="u/t"),
    says("three", "a text s: u3 a3"),
    says("four", "a text s: u1 a4", place="v/s"),
    state={"said": 2, "user:said": 3, "app:said": 4},
    elsewhere={
        "u/t": {"said": 1, "user:said": 3, "app:said": 4},
        "v/s": {"said": 1, "user:said": 1, "app:said": 4},
    },
)
def sessions_and_users_share_what_is_theirs() -> BaseAgent:
    def count(callback_context: Any, llm_request: Any) -> None:
        for key in ("said", "user:said", "app:said"):
            callback_context.state[key] = callback_context.state.get(key, 0) + 1
        config: Any = llm_request.config
        state, session = callback_context.state, callback_context.session.id
        config.system_instruction = f"{session}: u{state['user:said']} a{state['app:said']}"

    return LlmAgent(
        name="a",
        model=ScriptedModel(replies=lambda request: request.config.system_instruction),
        before_model_callback=count,
    )


@scenario(
    "TRAP-7 STA-6",
    says("go", "first text first", "second call keep", "second response keep", "second text kept"),
    says("go", "first text first", "second call keep", "second response keep", "second text kept"),
    state={"kept": ["note", "note"]},
)
def a_note_lives_as_long_as_its_run() -> BaseAgent:
    """What one agent's callback left under `temp:` reaches another's tool, in its own run only."""

    def leave(callback_context: Any, llm_response: Any) -> None:
        assert "temp:note" not in callback_context.state
        callback_context.state["temp:note"] = "note"

    def keep(tool_context: ToolContext) -> None:
        """Keep the note."""
        kept = tool_context.state.get("kept", [])
        tool_context.state["kept"] = [*kept, tool_context.state["temp:note"]]

    def reply(request: Any) -> Any:
        return "kept" if request.contents[-1].parts[0].function_response else call("keep")

    first = thinker("first", lambda _: "first", after_model_callback=leave)
    second = thinker("second", reply, tools=[keep])
    return SequentialAgent(name="seq", sub_agents=[first, second])
