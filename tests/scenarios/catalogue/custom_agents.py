"""Agents with a body of their own: they read what is committed and drive others."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from google.genai import types

from durable_adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    ParallelAgent,
    SequentialAgent,
)
from durable_adk.events import Event, EventActions
from durable_adk.tools import ToolContext
from tests.scenarios.parts import (
    Saying,
    instruction,
    speaker,
    text,
    thinker,
    told_by,
    user_said,
    words,
)
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call


class Steps(BaseAgent):
    """Reads its state back after each commit."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ctx.session.state["field_1"] = "value_1"
        yield self._event(ctx, {"field_1": "value_2"})
        yield self._event(ctx, {"seen": ctx.session.state["field_1"]})
        ctx.session.state["status"] = "processing"
        yield self._event(ctx, {"status": "processing", "temp:note": "gone"})
        seen = [ctx.session.state["status"], ctx.session.state["temp:note"]]
        yield self._event(ctx, {"seen_2": seen})

    def _event(self, ctx: InvocationContext, delta: dict[str, Any]) -> Event:
        content = text(",".join(sorted(delta)))
        return told_by(ctx, actions=EventActions(state_delta=delta), content=content)


@scenario(
    "STA-13 STA-6",
    says(
        "go",
        *("steps text field_1", "steps text seen"),
        *("steps text status,temp:note", "steps text seen_2"),
    ),
    state={
        "field_1": "value_2",
        "seen": "value_2",
        "status": "processing",
        "seen_2": ["processing", "gone"],
    },
)
def an_agent_sees_what_it_has_committed() -> BaseAgent:
    return Steps(name="steps")


class Router(BaseAgent):
    """Has one sub-agent decide, and runs the one it named."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        chosen = self.find_sub_agent(ctx.session.state["way"])
        assert chosen is not None
        async for event in chosen.run_async(ctx):
            yield event
        yield told_by(ctx, content=text(f"took {chosen.name}"))


@scenario(
    "AGT-35 STA-13",
    says("left", "guide text left", "left text to the left", "router text took left"),
    says("right", "guide text right", "right text to the right", "router text took right"),
    state={"way": "right"},
)
def an_agent_branches_on_what_another_said() -> BaseAgent:
    guide = thinker(
        "guide",
        lambda request: request.contents[-1].parts[0].text,
        output_key="way",
    )
    left = thinker("left", lambda _: "to the left")
    right = thinker("right", lambda _: "to the right")
    return Router(name="router", sub_agents=[guide, left, right])


class StoryFlow(BaseAgent):
    """Has a story revised until its critic is content."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        writer, critic, reviser = self.sub_agents
        async for event in writer.run_async(ctx):
            yield event
        while True:
            async for event in critic.run_async(ctx):
                yield event
            if ctx.session.state["verdict"] == "good":
                return
            async for event in reviser.run_async(ctx):
                yield event


@scenario(
    "AGT-35 AGT-21",
    says(
        "tell",
        *("writer text story", "critic text bad", "reviser text story+"),
        *("critic text bad", "reviser text story++", "critic text good"),
    ),
    state={"story": "story++", "verdict": "good"},
)
def a_story_is_revised_until_it_is_good() -> BaseAgent:
    writer = speaker("writer", "story", output_key="story")
    critic = thinker(
        "critic",
        lambda request: "good" if "++" in instruction(request) else "bad",
        instruction="{story}",
        output_key="verdict",
    )
    reviser = thinker(
        "reviser",
        lambda request: f"{instruction(request)}+",
        instruction="{story}",
        output_key="story",
    )
    return StoryFlow(name="flow", sub_agents=[writer, critic, reviser])


class Napper(BaseAgent):
    """Sleeps between its events."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for word in ("tired", "rested", "awake"):
            yield told_by(ctx, content=text(word))
            await asyncio.sleep(0.05)


@scenario(
    "AGT-4 DUR-2",
    says("go", "napper text tired", "napper text rested", "napper text awake"),
)
def an_agent_sleeps_between_its_events() -> BaseAgent:
    return Napper(name="napper")


class Dirty(BaseAgent):
    """Writes into the state directly, and has others read it before it is committed."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ctx.session.state["draft"] = "uncommitted"
        ctx.session.state["temp:mood"] = "calm"
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        yield told_by(ctx, actions=EventActions(state_delta={"kept": 1}))


@scenario(
    "STA-14 STA-17 TRAP-7",
    says(
        "go",
        "reader call look",
        "reader response look",
        "reader text uncommitted calm",
        "dirty delta",
    ),
    state={"kept": 1, "looked": "uncommitted"},
)
def a_dirty_write_is_read_and_not_stored() -> BaseAgent:
    def look(tool_context: ToolContext) -> None:
        """Look at the state."""
        tool_context.state["looked"] = tool_context.state["draft"]

    def reply(request: Any) -> Any:
        asked = len(request.contents) == 1
        return call("look") if asked else instruction(request)

    reader = thinker("reader", reply, tools=[look], instruction="{draft} {temp:mood}")
    return Dirty(name="dirty", sub_agents=[reader])


class Shouter(LlmAgent):
    """An LlmAgent that changes what its model said before it is committed."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in super()._run_async_impl(ctx):
            if words(event):
                event.content = text(words(event).upper())
            yield event


@scenario(
    "AGT-4",
    says("hi", "loud call look", "loud response look", "loud text QUIET"),
    says("and now", "loud text STILL"),
)
def a_subclass_changes_what_its_model_said() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    quiet = speaker("loud", call("look"), "quiet", "still", tools=[look])
    return Shouter(name="loud", model=quiet.model, tools=quiet.tools)


class Muffler(BaseAgent):
    """Keeps what its sub-agent says in the end for itself."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        kept = ""
        async for event in self.sub_agents[0].run_async(ctx):
            kept += words(event)
            if not words(event):
                yield event
        yield told_by(ctx, content=text(f"it said {len(kept)} letters"))


@scenario(
    "AGT-35 DUR-7",
    says("hi", "inner call look", "inner response look", "muffler text it said 6 letters"),
)
def an_agent_keeps_an_event_back() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    return Muffler(
        name="muffler", sub_agents=[speaker("inner", call("look"), "secret", tools=[look])]
    )


class Overseer(BaseAgent):
    """Runs others side by side, and reads what they left."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event
        state = ctx.session.state
        yield told_by(ctx, content=text(f"{state['a']} and {state['b']}"))


@scenario(
    "AGT-33 AGT-35",
    says("go", "a text A", "b text B", "overseer text A and B"),
    state={"a": "A", "b": "B"},
    side_by_side=True,
)
def an_agent_drives_others_side_by_side() -> BaseAgent:
    par = ParallelAgent(
        name="par",
        sub_agents=[speaker("a", "A", output_key="a"), speaker("b", "B", output_key="b")],
    )
    return Overseer(name="overseer", sub_agents=[par])


class Stopper(BaseAgent):
    """Ends itself in the middle."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield told_by(ctx, content=text("enough"))
        ctx.end_invocation = True


@scenario(
    "CTX-11 CTX-4",
    says("go", "stopper text enough", "seq text after", "router delta"),
    state={"way": "seq"},
)
def an_agent_that_ends_itself_ends_nothing_else() -> BaseAgent:
    """Its after callback does not run; its parent continues."""
    stopper = Stopper(name="stopper", after_agent_callback=lambda callback_context: text("never"))
    return _Pair(name="router", sub_agents=[stopper, thinker("seq", lambda _: "after")])


class _Pair(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                yield event
        yield told_by(ctx, actions=EventActions(state_delta={"way": "seq"}))


def measure(word: str) -> int:
    """Stand for I/O."""
    return len(word)


async def refuse(word: str, *, politely: bool) -> None:
    """Stand for I/O that fails."""
    raise LookupError(f"no {word}, {'sorry' if politely else 'never'}")


def _end(error: Exception) -> str:
    return str(error).rpartition(": ")[2]


class Surveyor(BaseAgent):
    """Does its I/O in steps."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        length = await ctx.step(measure, user_said(ctx))
        yield told_by(ctx, actions=EventActions(state_delta={"length": length}))
        length += await ctx.step(self.twice, ctx.session.state["length"])
        try:
            await ctx.step(refuse, "road", politely=True)
        except LookupError as error:
            yield told_by(ctx, content=text(f"{length} metres, {_end(error)}"))

    async def twice(self, number: int) -> int:
        """A method is a step too."""
        return 2 * number


@scenario(
    "DUR-3 AGT-35",
    says("abc", "surveyor delta", "surveyor text 9 metres, no road, sorry"),
    says("abcd", "surveyor delta", "surveyor text 12 metres, no road, sorry"),
    state={"length": 4},
)
def an_agent_does_io_in_steps() -> BaseAgent:
    return Surveyor(name="surveyor")


class Careless(BaseAgent):
    """Makes the mistake that the message names."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield told_by(ctx, content=text("still fine"))
        match user_said(ctx):
            case "raise":
                raise LookupError("not there")
            case "clock":
                time.time()
            case "events":
                len(ctx.session.events)
            case "value":
                yield told_by(ctx, actions=EventActions(state_delta={"x": object()}))
        yield told_by(ctx, actions=EventActions(state_delta={"done": True}))


@scenario(
    "RUN-8 DUR-2 TRAP-21",
    *(
        says(word, "careless text still fine", f"careless error {error}", raises=error)
        for word, error in (
            ("raise", "LookupError"),
            ("clock", "DeterminismError"),
            ("events", "NotInLoopError"),
            ("value", "StateValueError"),
        )
    ),
    says("nothing", "careless text still fine", "careless delta"),
    state={"done": True},
)
def a_body_makes_mistakes() -> BaseAgent:
    return Careless(name="careless")


@scenario(
    "AGT-5 AGT-7 AGT-8",
    says("go", "custom delta", "custom delta", "custom text said", "custom text more"),
    state={"before": 1, "own": 1},
)
def callbacks_of_a_custom_agent() -> BaseAgent:
    def before(callback_context: Any) -> None:
        callback_context.state["before"] = 1

    return Saying(
        name="custom",
        delta={"own": 1},
        texts=("said",),
        before_agent_callback=before,
        after_agent_callback=lambda callback_context: text("more"),
    )


class _Speaking(BaseAgent):
    """Says one thing in another's name, one in the user's and one without saying who it is."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author="other", invocation_id=ctx.invocation_id, content=text("of another"))
        said = types.Content(role="user", parts=[types.Part(text="of the user")])
        yield Event(author="user", invocation_id=ctx.invocation_id, content=said)
        yield told_by(ctx, error_code="ODD", error_message="not good")
        yield told_by(ctx, actions=EventActions(transfer_to_agent="after"))


@scenario(
    "RUN-3 EVT-1",
    says(
        "go",
        *("other text of another", "a error ODD", "a delta", "after text after"),
    ),
)
def an_agent_speaks_for_others() -> BaseAgent:
    return SequentialAgent(name="seq", sub_agents=[_Speaking(name="a"), speaker("after")])
