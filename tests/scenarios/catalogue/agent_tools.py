"""Agents that ask other agents as they call tools."""

from typing import Any

from google.genai import types
from pydantic import BaseModel

from durable_adk.agents import BaseAgent, LlmAgent, SequentialAgent
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.tools import AgentTool, ToolContext
from tests.scenarios.parts import instruction, last, speaker, thinker, user_said
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call, calls


def asking(*experts: LlmAgent | BaseAgent, **fields: Any) -> LlmAgent:
    """Asks all its experts at once, and tells what they said."""

    def reply(request: Any) -> Any:
        turn = calls(*((expert.name, {"request": "why?"}) for expert in experts))
        return last(request) if "=>" in last(request) else turn

    return thinker("root", reply, tools=[AgentTool(agent=expert) for expert in experts], **fields)


@scenario(
    "TOL-21 OPEN-6 TRAP-43",
    says(
        "go",
        "root call expert",
        "root response expert",
        "root text expert=>{'result': 'because: why?'}",
    ),
    says(
        "go",
        "root call expert",
        "root response expert",
        "root text expert=>{'result': 'because: why?'}",
    ),
)
def an_expert_is_asked() -> BaseAgent:
    return asking(thinker("expert", lambda request: f"because: {last(request)}"))


@scenario(
    "TOL-21 FLW-43 STA-3",
    says(
        "go",
        *("root delta", "root call one,two", "root response one,two"),
        "root text one=>{'result': 'from 1'}+two=>{'result': 'from 1'}",
    ),
    state={"given": 1, "found_one": 2, "found_two": 2, "user:liked": "two"},
)
def experts_are_asked_side_by_side() -> BaseAgent:
    """State goes in without `temp:`, and what they changed comes back in the order of the calls."""

    def expert(name: str) -> LlmAgent:
        def work(tool_context: ToolContext) -> str:
            """Work."""
            state = tool_context.state
            assert "temp:note" not in state
            state[f"found_{name}"] = state["given"] + 1
            state["user:liked"] = name
            return "ok"

        def reply(request: Any) -> Any:
            return f"from {instruction(request)}" if "=>" in last(request) else call(f"work_{name}")

        work.__name__ = f"work_{name}"
        return thinker(name, reply, tools=[work], instruction="{given}")

    def prepare(callback_context: Any) -> None:
        callback_context.state.update({"given": 1, "temp:note": 1})

    return asking(expert("one"), expert("two"), before_agent_callback=prepare)


@scenario(
    "TOL-21 TRAP-43",
    says(
        "go",
        "root call team",
        "root response team",
        "root text team=>{'result': 'second after inner said deep'}",
    ),
    state={"draft": "inner said deep"},
)
def a_team_with_an_expert_of_its_own_is_asked() -> BaseAgent:
    inner = speaker("inner", "deep")
    first = thinker(
        "first",
        lambda r: "inner said deep" if "deep" in last(r) else call("inner", request="q"),
        tools=[AgentTool(agent=inner)],
        output_key="draft",
    )
    second = thinker("second", lambda r: f"second after {instruction(r)}", instruction="{draft}")
    team = SequentialAgent(name="team", description="a team", sub_agents=[first, second])
    return asking(team)


class Question(BaseModel):
    """What the expert wants to be asked."""

    topic: str
    depth: int


@scenario(
    "TOL-21 AGT-20",
    says(
        "go",
        *("root call expert", "root response expert") * 2,
    ),
)
def an_expert_is_asked_by_a_schema() -> BaseAgent:
    """The model gets an error for arguments that do not fit; the answer stays as it is."""
    expert = thinker("expert", last, input_schema=Question)
    script = (call("expert", topic="tea"), call("expert", topic="tea", depth=2))
    return speaker("root", *script, tools=[AgentTool(agent=expert, skip_summarization=True)])


@scenario(
    "TOL-21 TOL-18",
    says(
        "go",
        "root call expert",
        "root response expert",
        "root error ValueError",
        raises="ValueError",
    ),
    says("go on", "root text here"),
)
def an_expert_fails() -> BaseAgent:
    expert = thinker("expert", lambda _: ValueError("no"))
    script = (call("expert", request="why?"), "here")
    return speaker("root", *script, tools=[AgentTool(agent=expert)])


@scenario(
    "TOL-21 ART-12 STA-3",
    says(
        "go",
        *("root call expert", "root response expert", "root call check", "root response check"),
        "root text check=>{'names': ['x.txt'], 'text': 'x', 'seen': 'yes', 'temp': None}",
    ),
    state={"given": "yes", "seen": "yes", "user:by": "expert", "said": "worked"},
    initial={"given": "yes"},
)
def an_expert_saves_a_file_and_writes() -> BaseAgent:
    async def work(tool_context: ToolContext) -> str:
        """Work."""
        state = tool_context.state
        state.update({"seen": state["given"], "user:by": "expert", "temp:note": 1})
        await tool_context.save_artifact("x.txt", types.Part(text="x"))
        return "ok"

    async def check(tool_context: ToolContext) -> dict[str, Any]:
        """Check what came of it."""
        part = await tool_context.load_artifact("x.txt")
        return {
            "names": await tool_context.list_artifacts(),
            "text": part and part.text,
            "seen": tool_context.state["seen"],
            "temp": tool_context.state.get("temp:note"),
        }

    expert = thinker(
        "expert",
        lambda request: "worked" if "=>" in last(request) else call("work"),
        tools=[work],
        output_key="said",
    )

    def reply(request: LlmRequest) -> Any:
        found = last(request)
        return (
            found
            if "names" in found
            else (call("check") if "=>" in found else call("expert", request="why?"))
        )

    return thinker("root", reply, tools=[AgentTool(agent=expert), check])


@scenario(
    "TOL-21 AGT-50",
    says("go", "root call expert", "root response expert", "root text expert=>{'result': 'known'}"),
)
def an_expert_hands_over() -> BaseAgent:
    other = speaker("other", "known")
    return asking(
        speaker("expert", call("transfer_to_agent", agent_name="other"), sub_agents=[other])
    )


@scenario(
    "TOL-21 EVT-20",
    says("go", "root call expert", "root response expert", "root text expert=>{'result': 'no'}"),
)
def an_experts_model_refuses() -> BaseAgent:
    refusal = LlmResponse(error_code="SAFETY", error_message="no")
    return asking(speaker("expert", refusal))


@scenario(
    "TOL-21 STA-19",
    says(
        "go",
        *("root call middle", "root response middle"),
        "root text middle=>{'result': \"['middle', 'deep']\"}",
    ),
    state={"noted": ["middle", "deep"], "asked": "why?"},
)
def an_agent_below_two_tools_starts_from_its_callers_state() -> BaseAgent:
    """Not from the session's; what both write comes back through the caller."""

    def note(callback_context: Any) -> None:
        state = callback_context.state
        state["noted"] = [*state.get("noted", []), callback_context.agent_name]
        state["asked"] = user_said(callback_context)

    deep = thinker("deep", instruction, instruction="{noted}", before_agent_callback=note)

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return said.partition("=>")[2][12:-2] if "=>" in said else call("deep", request="why?")

    middle = thinker("middle", reply, tools=[AgentTool(agent=deep)], before_agent_callback=note)
    return asking(middle)


@scenario(
    "FLW-48 CB-9",
    says("go", "root call expert", "root response expert", "root text expert=>{'result': 'how?'}"),
    state={"args": {"request": "how?"}},
)
def arguments_for_an_agent_are_changed() -> BaseAgent:
    def before(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["request"] = "how?"

    def after(tool: Any, args: Any, tool_context: ToolContext, tool_response: Any) -> None:
        tool_context.state["args"] = dict(args)

    expert = thinker("expert", last)
    return asking(expert, before_tool_callback=before, after_tool_callback=after)


@scenario(
    "TOL-21 FLW-52",
    says("go", "root call expert", "root response expert", "root text expert=>{'result': 'found'}"),
    unrun=["look"],
)
def an_expert_ends_with_a_tools_result() -> BaseAgent:
    def look(tool_context: ToolContext) -> str:
        """Look it up."""
        tool_context.actions.skip_summarization = True
        return "found"

    return asking(thinker("expert", lambda _: call("look"), tools=[look]))
