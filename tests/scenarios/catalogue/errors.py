"""Runs that fail: what is stored of them, and how the conversation continues."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from durable_adk.errors import ModelError
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.tools import ToolContext
from tests.scenarios.parts import last, shown, speaker, text, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call


@scenario(
    "RUN-8 FLW-61 TRAP-40",
    says("refused", "a error ModelError", raises="ModelError"),
    says("builtin", "a error TypeError", raises="TypeError"),
    says("fine", "a text user:refused user:builtin user:fine"),
)
def a_model_fails_and_the_conversation_goes_on() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        errors = {"refused": ModelError("refused"), "builtin": TypeError("broken")}
        return errors.get(last(request)) or shown(request)

    return thinker("a", reply)


@scenario(
    "EVT-20 EVT-21 TRAP-40",
    says("unsafe", "a error SAFETY", "after text after"),
    says("long", "a error MAX_TOKENS", "after text after"),
    says("fine", "a text said: unsafe long fine", "after text after"),
)
def an_error_response_is_an_event_and_no_failure() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        codes = {"unsafe": "SAFETY", "long": "MAX_TOKENS"}
        code = codes.get(last(request))
        said = [content.parts[0].text for content in request.contents if content.role == "user"]
        mine = " ".join(one for one in said if not one.startswith("For context:"))
        return LlmResponse(error_code=code, error_message="sorry") if code else f"said: {mine}"

    return SequentialAgent(name="seq", sub_agents=[thinker("a", reply), speaker("after")])


@scenario(
    "FLW-5 17.1 TRAP-24",
    says("blank", "a error MODEL_RETURNED_NO_CONTENT"),
    says("musing", "a error MODEL_RETURNED_NO_CONTENT"),
    says("parts", "a text said"),
)
def an_empty_answer_is_an_error_event() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        musing = types.Part(text="hm", thought=True)
        return {
            "blank": " ",
            "musing": musing,
            "parts": [types.Part(text=""), musing, types.Part(text="said"), types.Part(text="")],
        }[last(request)]

    return thinker("a", reply)


_COUNTED = ("a call count", "a response count")


@scenario(
    "CTX-3 TRAP-36",
    says(
        "go",
        *(*_COUNTED, *_COUNTED, "a error LlmCallsLimitExceededError"),
        raises="LlmCallsLimitExceededError",
        run_config=RunConfig(max_llm_calls=2),
    ),
    says("go on", *_COUNTED, "a text counted", run_config=RunConfig(max_llm_calls=2)),
    state={"count": 3},
)
def the_limit_of_model_calls() -> BaseAgent:
    def count(tool_context: ToolContext) -> None:
        """Count."""
        tool_context.state["count"] = tool_context.state.get("count", 0) + 1

    return speaker("a", *[call("count")] * 3, "counted", tools=[count])


@scenario(
    "CTX-3 CTX-4 TRAP-36",
    says(
        "go",
        *("a text a", "b text b", "a text a", "rounds error LlmCallsLimitExceededError"),
        raises="LlmCallsLimitExceededError",
        run_config=RunConfig(max_llm_calls=3),
    ),
)
def the_limit_is_for_all_agents_together() -> BaseAgent:
    """The error is by the agent that the run started with."""
    return LoopAgent(name="rounds", sub_agents=[speaker("a"), speaker("b")])


@scenario(
    "RUN-8 AGT-30",
    says("go", "first text first", "seq error KeyError", raises="KeyError"),
    says("go", "first text first", "seq error KeyError", raises="KeyError"),
)
def a_failure_ends_a_sequence() -> BaseAgent:
    failing = thinker("failing", lambda _: KeyError("no"))
    return SequentialAgent(name="seq", sub_agents=[speaker("first"), failing, speaker("never")])


@scenario(
    "AGT-33 RUN-8",
    says("go", "a text a", "par error ValueError", raises="ValueError"),
    side_by_side=True,
)
def a_failing_branch_ends_the_run() -> BaseAgent:
    failing = thinker("failing", lambda _: ValueError("no"))
    failing.model.delay = 2.0  # the other has spoken by then, also on a slow machine
    return ParallelAgent(name="par", sub_agents=[speaker("a"), failing])


@scenario(
    "RUN-20 RUN-21 TRAP-28",
    says(" ", raises="ValueError"),
    says(call("look"), raises="ValueError"),
    says(
        types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(id="adk-x", name="look", response={})
                )
            ],
        ),
        raises="ValueError",
    ),
    says(text("from a model"), "a text user:from a model"),
)
def unfit_messages_are_refused() -> BaseAgent:
    """Nothing of them is stored; a message is the user's, whatever its role says."""
    return thinker("a", shown)


@scenario(
    "TOL-18 RUN-8 CAN-2 TRAP-47",
    says("go", "a call fail", "a response fail", "a error RuntimeError", raises="RuntimeError"),
    says("go on", "a text user:go model:fail() user:fail=>{'error': 'Tool'} user:go on"),
)
def a_failing_tool_leaves_no_call_open() -> BaseAgent:
    def fail() -> None:
        """Fail."""
        raise RuntimeError("broken")

    def reply(request: LlmRequest) -> Any:
        if len(request.contents) == 1:
            return call("fail")
        for content in request.contents:
            for part in content.parts:
                if answer := part.function_response:
                    answer.response = {"error": answer.response["error"][:4]}
        return shown(request)

    return thinker("a", reply, tools=[fail])


@scenario(
    "RUN-8 RUN-27",
    says(
        "go",
        "a error ValueError",
        raises="ValueError",
        run_config=RunConfig(custom_metadata={"order": 7}),
    ),
)
def an_error_carries_the_metadata_of_the_run() -> BaseAgent:
    return thinker("a", lambda _: ValueError("no"))


@scenario(
    "AGT-53 RUN-8",
    says(
        "go",
        *("root call transfer_to_agent", "root response transfer_to_agent"),
        "root error ValueError",
        raises="ValueError",
    ),
)
def handing_over_to_oneself_fails_the_run() -> BaseAgent:
    return speaker("root", call("transfer_to_agent", agent_name="root"), sub_agents=[speaker("a")])
