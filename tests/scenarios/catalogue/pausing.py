"""Long-running tools: the invocation pauses, the answer resumes it, later updates follow."""

from typing import Any

from durable_adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from durable_adk.models import LlmRequest
from durable_adk.tools import ToolContext, exit_loop, get_user_choice
from durable_adk.tools.long_running_tool import LongRunningFunctionTool
from tests.scenarios.parts import instruction, last, shown, speaker, thinker
from tests.scenarios.scenario import Reply, answers, says, scenario
from tests.support.scripts import call, calls


def order(item: str) -> None:
    """Order something; the shop answers later."""


def ticket(item: str) -> dict[str, str]:
    """Open a ticket; it is closed later."""
    return {"status": "pending", "item": item}


ORDER = LongRunningFunctionTool(order)
TICKET = LongRunningFunctionTool(ticket)


def buyer(name: str = "buyer", **fields: Any) -> LlmAgent:
    """Orders what the user says, and tells what came of it."""

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return f"got {said}" if "=>" in said else call("order", item=said)

    return thinker(name, reply, tools=[ORDER], **fields)


@scenario(
    "D9 FLW-50 TOL-41 OPEN-3",
    says("book", "buyer call order"),
    answers(Reply("order", {"delivered": True}), "buyer text got order=>{'delivered': True}"),
    says("pen", "buyer call order"),
    answers(Reply("order", {"delivered": False}), "buyer text got order=>{'delivered': False}"),
)
def a_call_waits_for_its_answer() -> BaseAgent:
    return buyer()


@scenario("D9 FLW-50", says("book", "buyer call order"), waiting=["order"])
def a_call_waits_at_the_end() -> BaseAgent:
    return buyer()


def _clerk() -> LlmAgent:
    """Opens a ticket, and tells what is known of it each time."""

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return f"heard {said}" if "=>" in said else call("ticket", item=said)

    return thinker("clerk", reply, tools=[TICKET])


@scenario(
    "FLW-50 FLW-25 TRAP-26 TOL-42",
    says(
        "lamp",
        *("clerk call ticket", "clerk response ticket"),
        "clerk text heard ticket=>{'status': 'pending', 'item': 'lamp'}",
    ),
    answers(Reply("ticket", {"status": "closed"}), "clerk text heard ticket=>{'status': 'closed'}"),
)
def an_interim_result_is_told_before_the_last() -> BaseAgent:
    return _clerk()


@scenario(
    "TOL-41 OPEN-3 AGT-40 FLW-26 TRAP-26",
    says(
        "lamp",
        *("clerk call ticket", "clerk response ticket"),
        "clerk text heard ticket=>{'status': 'pending', 'item': 'lamp'}",
    ),
    answers(Reply("ticket", {"part": 1}), "clerk text heard ticket=>{'part': 1}"),
    answers(Reply("ticket", {"part": 2}), "clerk text heard ticket=>{'part': 2}"),
    answers(Reply("ticket", {"part": 3}), "clerk text heard ticket=>{'part': 3}"),
)
def later_updates_start_runs_of_their_own() -> BaseAgent:
    return _clerk()


@scenario(
    "TOL-40 17.1",
    says("book", "buyer call order"),
    answers(
        Reply("order", {"ok": True}),
        *("buyer text got order=>{'ok': True}", "last text got order=>{'ok': True} and more"),
    ),
    state={"got": "got order=>{'ok': True}"},
)
def the_rest_of_a_sequence_runs_after_the_answer() -> BaseAgent:
    rest = thinker("last", lambda request: f"{instruction(request)} and more", instruction="{got}")
    return SequentialAgent(name="seq", sub_agents=[buyer(output_key="got"), rest])


@scenario(
    "AGT-33 D9",
    says("book", "a call order", "b call order", "c text done"),
    answers(Reply("order", {"n": 2}, author="b"), "b text got order=>{'n': 2}"),
    answers(Reply("order", {"n": 1}, author="a"), "a text got order=>{'n': 1}", "last text last"),
    side_by_side=True,
)
def branches_wait_each_for_its_own_answer() -> BaseAgent:
    par = ParallelAgent(name="par", sub_agents=[buyer("a"), buyer("b"), speaker("c", "done")])
    return SequentialAgent(name="seq", sub_agents=[par, speaker("last")])


@scenario(
    "AGT-32 D9",
    says("book", "buyer call order"),
    answers(Reply("order", {"n": 1}), "buyer text n 1", "buyer call order"),
    answers(
        Reply("order", {"n": 2}),
        "buyer text n 2",
        "buyer call exit_loop",
        "buyer response exit_loop",
    ),
)
def a_loop_waits_in_every_round() -> BaseAgent:
    script = (call("order", item="a"), "n 1", call("order", item="b"), "n 2", call("exit_loop"))
    return LoopAgent(name="loop", sub_agents=[speaker("buyer", *script, tools=[ORDER, exit_loop])])


@scenario(
    "TRAP-27 FLW-50",
    says("go", "a call order,look", "a response look", "a text seen"),
    answers(Reply("order", {"ok": True}), "a text all there"),
)
def a_waiting_call_beside_an_ordinary_one() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        told = shown(request)
        if "order=>" in told:
            return "all there"
        return "seen" if "look=>" in told else calls(("order", {"item": "x"}), ("look", {}))

    return thinker("a", reply, tools=[ORDER, look])


@scenario(
    "D9 TOL-41",
    says("go", "a call order,order"),
    answers(
        [Reply("order", {"both": True})],
        "a text x",
    ),
    waiting=["order"],
)
def one_of_two_waiting_calls_is_answered() -> BaseAgent:
    return speaker(
        "a", calls(("order", {"item": "x"}), ("order", {"item": "y"})), "x", tools=[ORDER]
    )


@scenario(
    "D9 TOL-41 FLW-43",
    says(
        "go",
        "a call order,ticket",
        "a response ticket",
        "a text ticket=>{'status': 'pending', 'item': 'y'}",
    ),
    answers(
        [Reply("order", {"n": 1}), Reply("ticket", {"n": 2})],
        "a text order=>{'n': 1}+ticket=>{'n': 2}",
    ),
)
def two_waiting_calls_are_answered_together() -> BaseAgent:
    turn = calls(("order", {"item": "x"}), ("ticket", {"item": "y"}))

    def reply(request: LlmRequest) -> Any:
        return last(request) if "=>" in last(request) else turn

    return thinker("a", reply, tools=[ORDER, TICKET])


@scenario(
    "D7 D9 STA-3",
    says("book", "buyer call order"),
    says("hi", "buyer text hello", state_delta={"mood": "good"}),
    answers(Reply("order", {"ok": True}), "buyer text got order, mood good"),
    says("hi", "buyer text hello"),
    initial={"mood": "bad"},
    state={"mood": "good"},
)
def other_messages_run_while_one_waits() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        said = last(request)
        if "=>" in said:
            return f"got order, {instruction(request)}"
        return "hello" if said == "hi" else call("order", item=said)

    return thinker("buyer", reply, instruction="mood {mood}", tools=[ORDER])


@scenario(
    "AGT-40 TRAP-18 AGT-41",
    says(
        "book", "desk call transfer_to_agent", "desk response transfer_to_agent", "buyer call order"
    ),
    answers(Reply("order", {"ok": True}), "buyer text got order=>{'ok': True}"),
    answers(Reply("order", {"again": True}), "buyer text got order=>{'again': True}"),
)
def an_answer_goes_to_who_made_the_call() -> BaseAgent:
    """Also a late one, and although it may not keep the conversation."""
    hand_over = call("transfer_to_agent", agent_name="buyer")

    def reply(request: LlmRequest) -> Any:
        told = shown(request).split("user:")[-1]
        if "=>" in told:
            return f"got {last(request)}"
        return call("order", item="book")

    helper = thinker("buyer", reply, tools=[ORDER], disallow_transfer_to_parent=True)
    return speaker("desk", hand_over, "never", sub_agents=[helper])


@scenario(
    "TOL-24",
    says("choose", "host call get_user_choice"),
    answers(Reply("get_user_choice", {"choice": "tea"}), "host text tea it is"),
)
def the_user_chooses() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        answer = request.contents[-1].parts[0].function_response
        options = {"options": ["tea", "coffee"]}
        return (
            f"{answer.response['choice']} it is" if answer else call("get_user_choice", **options)
        )

    return thinker("host", reply, tools=[get_user_choice])


@scenario(
    "TRAP-9 STA-6 TRAP-7",
    says("go", "a call start", "a delta"),
    answers(Reply("start", {"ok": True}), "a text started once calm"),
    state={"started": "once"},
)
def what_a_waiting_tool_wrote_is_kept() -> BaseAgent:
    """Its `temp:` keys too, as long as the invocation waits."""

    def start(tool_context: ToolContext) -> None:
        """Start something."""
        tool_context.state["started"] = "once"

    def mood(callback_context: Any, llm_request: Any) -> None:
        callback_context.state.setdefault("temp:mood", "calm")

    def reply(request: LlmRequest) -> Any:
        return f"started {instruction(request)}" if "=>" in last(request) else call("start")

    return thinker(
        "a",
        reply,
        instruction="{started?} {temp:mood?}",
        before_model_callback=mood,
        tools=[LongRunningFunctionTool(start)],
    )


@scenario(
    "TOL-40 CB-8",
    says("fail", "a call start", "a response start", "a text told start=>{'error': 'no'}"),
    says("skip", "a call start", "a response start", "a text told start=>{'known': 1}"),
    unrun=["start"],
)
def a_long_running_call_that_has_its_result_at_once() -> BaseAgent:
    """An error is the last word, and so is a callback's answer."""

    def start(word: str) -> dict[str, str]:
        """Start something."""
        return {"error": "no"}

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return f"told {said}" if "=>" in said else call("start", word=said)

    def before(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, int] | None:
        return {"known": 1} if args["word"] == "skip" else None

    return thinker("a", reply, tools=[LongRunningFunctionTool(start)], before_tool_callback=before)


@scenario(
    "TRAP-28 RUN-21",
    says("book", "buyer call order"),
    answers(Reply("order", {"x": 1}, name="ticket"), raises="ValueError"),
    answers([Reply("order", {"x": 1}), Reply("order", {"x": 2})], raises="ValueError"),
    answers(Reply("order", {"x": 3}), "buyer text got order=>{'x': 3}"),
)
def unfit_answers_change_nothing() -> BaseAgent:
    return buyer()


@scenario(
    "FLW-61 D9",
    says("book", "a call order"),
    answers(Reply("order", {"x": 1}), "a error ValueError", raises="ValueError"),
    answers(Reply("order", {"x": 2}), raises="ValueError"),
    says("hi", "a text here again"),
)
def a_run_fails_after_its_answer() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return (
            ValueError("no")
            if "=>" in said
            else {"hi": "here again"}.get(said) or call("order", item=said)
        )

    return thinker("a", reply, tools=[ORDER])
