"""Values that user code receives are its own: it may change all of them in place (TRAP-23)."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from google.genai import types
from pydantic import BaseModel

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, RunConfig
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.tools import FunctionTool, ToolContext
from tests.conftest import MakeRunner
from tests.support.scripts import USER, call, send, stored

SPOILED = "spoiled"
HOOKS = ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")
ROUND = ("on_user_message", "before_run", "on_event", "after_run")


def spoil(value: Any, seen: set[int] | None = None) -> None:
    """Change everything in a value, in place, as deep as it goes."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    fields: Any = vars(value) if isinstance(value, BaseModel) else value
    pairs: Any = fields.items() if isinstance(fields, dict) else ()
    for key, item in list(pairs or (enumerate(fields) if isinstance(fields, list) else ())):
        if isinstance(item, str) and type(item) is str:
            fields[key] = SPOILED
        elif isinstance(item, int) and type(item) is int:
            fields[key] = -1
        spoil(item, seen)
    if isinstance(fields, dict) and not isinstance(value, BaseModel):
        fields[SPOILED] = SPOILED


class Spoiler:
    """Looks at each step's session, then spoils it, and all that it received in earlier steps."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.now: list[Any] = []
        self.views: list[list[str]] = []

    def look(self, context: Any, *given: Any) -> None:
        """Do so in a hook, a tool or a provider."""
        events = context.session.events
        if not any(value is events for value in self.given):  # the first look of a step
            self.views.append([event.to_json() for event in events])
            self.given += [*self.now, events, context.user_content, context.run_config]
            self.now.clear()
        for value in self.given:
            spoil(value)
        events.reverse()
        self.now += given

    def hook(self, name: str) -> Callable[..., Any]:
        """A callback."""

        async def look(*_: Any, **given: Any) -> None:
            names = ("callback_context", "tool_context", "invocation_context")
            (context,) = (given.pop(name) for name in names if name in given)
            # What the worker has of an app is shared, as in ADK.
            shared = {"agent", "tool"}
            self.look(context, *(value for key, value in given.items() if key not in shared))

        return look

    def plugin(self) -> BasePlugin:
        """A plugin with all hooks."""
        plugin = type("Spoiling", (BasePlugin,), {n: self.hook(n) for n in _names(HOOKS + ROUND)})
        return plugin(name="spoiling")


def _names(hooks: tuple[str, ...]) -> list[str]:
    return [f"{hook}_callback" for hook in hooks]


async def test_user_code_spoils_nothing_but_its_own(make_runner: MakeRunner) -> None:
    """TRAP-23, I16: every step sees what is stored, and an approved call runs as shown."""
    spoiler, paid, prompts = Spoiler(), list[Any](), list[str]()

    async def pay(n: int, to: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Pay."""
        paid.append((n, deepcopy(to)))
        result = {"paid": [n]}
        spoiler.look(tool_context, to, tool_context.tool_confirmation, result)
        return result

    def reply(request: LlmRequest) -> Any:
        prompts.append(str(request.contents))
        said = request.contents[-1].parts[-1].text
        return call("pay", n=5, to={"who": ["Ada"]}) if said == "pay" else "fine"

    def instruct(context: Any) -> str:
        spoiler.look(context)
        return "Be brief."

    agent = LlmAgent(
        name="a",
        model=ScriptedModel(replies=reply),
        instruction=instruct,
        tools=[FunctionTool(pay, require_confirmation=True)],
        **{name: spoiler.hook(name) for name in _names(HOOKS)},
    )
    runner = await make_runner(agent, plugins=[spoiler.plugin()])
    run_config = RunConfig(custom_metadata={"from": {"where": ["here"]}})
    for message in ("my name is Ada", "pay", "hello"):
        await send(runner, message, run_config=run_config)
    (waiting,) = await runner.pending(**USER)
    answer = types.FunctionResponse(
        id=waiting.call_id,
        name=waiting.name,
        response={"confirmed": True, "payload": {"note": ["yes"]}},
    )
    await send(runner, types.Content(role="user", parts=[types.Part(function_response=answer)]))
    assert paid == [(5, {"who": ["Ada"]})]
    assert not [prompt for prompt in prompts if SPOILED in prompt]
    kept: list[Event] = await stored(runner)
    texts = [event.to_json() for event in kept]
    assert not [text for text in texts if SPOILED in text]
    wrong = [view for view in spoiler.views if view != texts[: len(view)]]
    assert not wrong
    assert kept[-2].get_function_responses()[0].response == {"paid": [5]}
    assert [event.custom_metadata for event in kept[1:3]] == [run_config.custom_metadata] * 2


def grow(names: list[str]) -> int:
    """Change the argument of a step."""
    names.append("more")
    return len(names)


class Late(BaseAgent):
    """Changes an event after it was committed, and what it has passed to a step."""

    async def _run_async_impl(self, ctx: InvocationContext) -> Any:
        names = ["one"]
        grown = await ctx.step(grow, names)
        content = types.Content(role="model", parts=[types.Part(text=f"{len(names)}, {grown}")])
        event = Event(author=self.name, content=content)
        yield event
        spoil(event.content)
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


async def test_what_a_body_changes_later_is_its_own(make_runner: MakeRunner) -> None:
    """TRAP-8, TRAP-52: in process, too, where the body has the very objects."""
    prompts: list[str] = []
    model = ScriptedModel(replies=lambda asked: prompts.append(str(asked.contents)) or "done")
    late = Late(name="late", sub_agents=[LlmAgent(name="a", model=model)])
    events = await send(await make_runner(late))
    assert [event.text for event in events][-1] == "done"
    assert "1, 2" in prompts[0]
    assert SPOILED not in prompts[0]
