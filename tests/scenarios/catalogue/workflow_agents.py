"""Sequential, loop and parallel agents, and one inside the other."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.tools import ToolContext, exit_loop
from tests.scenarios.parts import Counter, Saying, instruction, shown, speaker, text, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call


@scenario(
    "AGT-30 AGT-42",
    says("hello", "first text first", "second text second"),
    says("again", "first text first", "second text second"),
)
def a_sequence_in_order() -> BaseAgent:
    return SequentialAgent(name="seq", sub_agents=[speaker("first"), speaker("second")])


@scenario(
    "AGT-30 AGT-21",
    says("write", "first text a draft", "second text got Improve: a draft"),
    state={"draft": "a draft", "final": "got Improve: a draft"},
)
def a_sequence_hands_on_what_it_has() -> BaseAgent:
    second = thinker(
        "second",
        lambda request: f"got {instruction(request)}",
        instruction="Improve: {draft}",
        output_key="final",
    )
    first = speaker("first", "a draft", output_key="draft")
    return SequentialAgent(name="seq", sub_agents=[first, second])


@scenario(
    "AGT-31",
    says("go", "leaver delta", "leaver text bye", "after text after"),
)
def an_escalation_does_not_stop_a_sequence() -> BaseAgent:
    leaver = Saying(name="leaver", escalate=True, texts=("bye",))
    return SequentialAgent(name="seq", sub_agents=[leaver, speaker("after")])


@scenario(
    "AGT-30",
    says("go", "only text only"),
)
def an_empty_sequence_is_nothing() -> BaseAgent:
    empty = SequentialAgent(name="empty")
    return SequentialAgent(name="seq", sub_agents=[empty, speaker("only")])


@scenario(
    "AGT-32 OPEN-2 TRAP-31",
    says(
        "go",
        *("a text a", "c delta", "c text round 1", "b text b"),
        *("a text a", "c delta", "c text round 2", "b text b"),
        *("a text a", "c delta", "c text round 3"),
    ),
    says("go on", "a text a", "c delta", "c text round 4"),
    state={"c": 4},
)
def a_loop_until_it_escalates() -> BaseAgent:
    children = [speaker("a"), Counter(name="c", last=3), speaker("b")]
    return LoopAgent(name="loop", sub_agents=children)


@scenario(
    "AGT-32",
    says("go", "a text one", "a text two", "a text three"),
    says("go on", "a text four", "a text five", "a text six"),
)
def a_loop_with_a_limit() -> BaseAgent:
    words = ("one", "two", "three", "four", "five", "six")
    return LoopAgent(name="loop", max_iterations=3, sub_agents=[speaker("a", *words)])


@scenario("TRAP-32", says("go"))
def a_loop_of_no_rounds() -> BaseAgent:
    return LoopAgent(name="loop", max_iterations=0, sub_agents=[speaker("a")])


@scenario(
    "TRAP-31",
    says(
        "go",
        *("c delta", "c text round 1", "c delta", "c text round 2"),
        "after text after",
    ),
    state={"c": 2},
)
def nested_loops_end_together() -> BaseAgent:
    inner = LoopAgent(name="inner", sub_agents=[Counter(name="c", last=2)])
    outer = LoopAgent(name="outer", sub_agents=[inner, speaker("never")])
    return SequentialAgent(name="seq", sub_agents=[outer, speaker("after")])


def _reviser() -> LlmAgent:
    """Improves until its critic has left the loop."""
    return thinker(
        "reviser",
        lambda request: f"{instruction(request)}!",
        instruction="{story}",
        output_key="story",
    )


@scenario(
    "AGT-32 TOL-22 FLW-53",
    says(
        "tell",
        "writer text a story",
        *("critic text weak", "reviser text a story!"),
        *("critic text weak", "reviser text a story!!"),
        *("critic call exit_loop", "critic response exit_loop"),
        "editor text a story!! printed",
    ),
    state={"story": "a story!!"},
)
def a_refinement_loop_is_left_by_a_tool() -> BaseAgent:
    def judge(request: LlmRequest) -> Any:
        return call("exit_loop") if instruction(request).count("!") == 2 else "weak"

    critic = thinker("critic", judge, instruction="{story}", tools=[exit_loop])
    editor = thinker("editor", lambda r: f"{instruction(r)} printed", instruction="{story}")
    loop = LoopAgent(name="loop", sub_agents=[critic, _reviser()])
    writer = speaker("writer", "a story", output_key="story")
    return SequentialAgent(name="seq", sub_agents=[writer, loop, editor])


def researcher(name: str) -> LlmAgent:
    """Looks something up, then reports it."""

    async def look(tool_context: ToolContext) -> str:
        """Look it up."""
        tool_context.state[f"seen_{name}"] = True
        return f"facts of {name}"

    return speaker(
        name, call("look"), f"report of {name}", tools=[look], output_key=f"report_{name}"
    )


def _research(name: str) -> list[str]:
    return [f"{name} call look", f"{name} response look", f"{name} text report of {name}"]


@scenario(
    "AGT-33 RUN-3",
    says("go", *_research("a"), *_research("b"), *_research("c")),
    state={
        f"{key}_{name}": value
        for name in "abc"
        for key, value in (("seen", True), ("report", f"report of {name}"))
    },
    side_by_side=True,
)
def three_side_by_side() -> BaseAgent:
    return ParallelAgent(name="par", sub_agents=[researcher(name) for name in "abc"])


@scenario(
    "AGT-34 TRAP-33",
    says("go", *_research("a"), *_research("ab"), "last text report of a, report of ab"),
    state={
        "seen_a": True,
        "seen_ab": True,
        "report_a": "report of a",
        "report_ab": "report of ab",
    },
    side_by_side=True,
)
def research_and_synthesis() -> BaseAgent:
    """Whoever comes after sees all; `par.ab` does not see `par.a`."""

    def watched(name: str) -> LlmAgent:
        agent = researcher(name)

        def reply(request: LlmRequest) -> Any:
            if len(request.contents) == 1:
                return call("look")
            foreign = [line for line in shown(request).split() if "quoted" in line]
            return f"report of {name}{foreign or ''}"

        agent.model = ScriptedModel(replies=reply)
        return agent

    def sum_up(request: LlmRequest) -> str:
        told = str(request.contents)
        return ", ".join(f"report of {name}" for name in ("a", "ab") if f"report of {name}" in told)

    par = ParallelAgent(name="par", sub_agents=[watched("a"), watched("ab")])
    return SequentialAgent(name="seq", sub_agents=[par, thinker("last", sum_up)])


@scenario(
    "AGT-33 AGT-32",
    says(
        "go",
        *("x text x", "c delta", "c text round 1", "x text x", "c delta", "c text round 2"),
        *("y text y", "z text z"),
        "last text last",
    ),
    state={"c": 2},
    side_by_side=True,
)
def a_sequence_in_a_loop_side_by_side_with_another() -> BaseAgent:
    steps = SequentialAgent(name="steps", sub_agents=[speaker("x"), Counter(name="c", last=2)])
    one = LoopAgent(name="one", sub_agents=[steps])
    two = SequentialAgent(name="two", sub_agents=[speaker("y"), speaker("z")])
    par = ParallelAgent(name="par", sub_agents=[one, two])
    return SequentialAgent(name="seq", sub_agents=[par, speaker("last")])


@scenario(
    "AGT-32 AGT-33",
    says(
        "go",
        *("a text 0", "b text 0", "c delta", "c text round 1"),
        *("a text 1", "b text 1", "c delta", "c text round 2"),
    ),
    state={"c": 2},
    side_by_side=True,
)
def side_by_side_in_a_loop() -> BaseAgent:
    def turn(request: LlmRequest) -> str:
        return str(sum(content.role == "model" for content in request.contents))

    par = ParallelAgent(name="par", sub_agents=[thinker("a", turn), thinker("b", turn)])
    return LoopAgent(name="loop", sub_agents=[par, Counter(name="c", last=2)])


@scenario(
    "AGT-33 FLW-21",
    says(
        "go",
        "a text a",
        "b text b",
        "d text user:go user:quoted+[c] said:\n<<<QUOTE\nc\nQUOTE>>>",
        "c text c",
    ),
    side_by_side=True,
)
def branches_within_branches() -> BaseAgent:
    """An agent sees what was said before it on its own branch, and nothing of the others."""
    inner = ParallelAgent(name="inner", sub_agents=[speaker("a"), speaker("b")])
    chain = SequentialAgent(name="chain", sub_agents=[speaker("c"), thinker("d", shown)])
    return ParallelAgent(name="outer", sub_agents=[inner, chain])


@scenario(
    "AGT-33 FLW-21 TRAP-33",
    says(
        "go",
        "a text a",
        "d text user:go user:quoted+[a] said:\n<<<QUOTE\na\nQUOTE>>>",
    ),
    side_by_side=True,
)
def after_branches_in_a_branch_what_they_said_is_there() -> BaseAgent:
    """For an agent behind them, be it on a branch of another ParallelAgent."""
    inner = ParallelAgent(name="inner", sub_agents=[speaker("a")])
    then = ParallelAgent(name="then", sub_agents=[thinker("d", shown)])
    chain = SequentialAgent(name="chain", sub_agents=[inner, then])
    return ParallelAgent(name="outer", sub_agents=[chain])


@scenario(
    "AGT-33 TRAP-31",
    says("go", "leaver delta", "after text after"),
    side_by_side=True,
)
def an_escalation_leaves_the_loop_around_a_branch() -> BaseAgent:
    par = ParallelAgent(
        name="par", sub_agents=[Saying(name="leaver", escalate=True, texts=("bye",))]
    )
    loop = LoopAgent(name="loop", sub_agents=[par, speaker("never")])
    return SequentialAgent(name="seq", sub_agents=[loop, speaker("after")])


@scenario(
    "AGT-5 AGT-6 AGT-8",
    says(
        "go",
        *("seq delta", "a text a", "skipped text instead"),
        *("round text round", "loop text looped", "x text x", "par delta", "seq delta"),
    ),
    state={"notes": ["seq", "par", "seq"]},
)
def callbacks_of_workflow_agents() -> BaseAgent:
    def note(callback_context: Any) -> None:
        notes = callback_context.state.get("notes", [])
        callback_context.state["notes"] = [*notes, callback_context.agent_name]

    def answer(callback_context: Any) -> types.Content:
        return text("instead")

    skipped = SequentialAgent(
        name="skipped", sub_agents=[speaker("never")], before_agent_callback=answer
    )
    loop = LoopAgent(
        name="loop",
        max_iterations=1,
        sub_agents=[speaker("round")],
        after_agent_callback=lambda callback_context: text("looped"),
    )
    par = ParallelAgent(name="par", sub_agents=[speaker("x")], after_agent_callback=note)
    return SequentialAgent(
        name="seq",
        sub_agents=[speaker("a"), skipped, loop, par],
        before_agent_callback=note,
        after_agent_callback=note,
    )
