"""Answers that are shown while they are written; what is stored is the same as without."""

import asyncio
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, ParallelAgent, RunConfig, SequentialAgent
from durable_adk.agents.run_config import StreamingMode
from durable_adk.models import LlmRequest, LlmResponse
from tests.scenarios.parts import last, speaker, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call

SSE = RunConfig(streaming_mode=StreamingMode.SSE)


async def look() -> str:
    """Look."""
    await asyncio.sleep(0)
    return "seen"


@scenario(
    "FLW-70 FLW-71 FLW-72 TRAP-4 TRAP-5",
    says("go", "a text It is Paris, of course.", run_config=SSE),
    says("and now?", "a text Still it is.", run_config=SSE),
    says("thanks", "a text You are welcome."),
    state={"answer": "You are welcome.", "seen": 3},
)
def text_comes_in_chunks() -> BaseAgent:
    """The answer is kept, and the callbacks' changes with it, once."""

    def count(callback_context: Any, llm_response: Any) -> None:
        if not llm_response.partial:
            callback_context.state["seen"] = callback_context.state.get("seen", 0) + 1

    agent = speaker(
        "a",
        *("It is Paris, of course.", "Still it is.", "You are welcome."),
        output_key="answer",
        after_model_callback=count,
    )
    agent.model.chunk_delay = 0.002
    return agent


@scenario(
    "FLW-73 FLW-74 FLW-80",
    says("go", "a call look", "a response look", "a text I have seen it.", run_config=SSE),
)
def thoughts_text_and_calls_come_in_chunks() -> BaseAgent:
    parts = [
        types.Part(text="I had better look", thought=True),
        types.Part(text="Let me look."),
        types.Part(function_call=types.FunctionCall(name="look", args={})),
    ]
    return speaker("a", parts, "I have seen it.", tools=[look])


@scenario(
    "FLW-72 AGT-33",
    says("go", "a text one two three", "b text four five six", "c text c", run_config=SSE),
    side_by_side=True,
)
def branches_stream_side_by_side() -> BaseAgent:
    par = ParallelAgent(
        name="par", sub_agents=[speaker("a", "one two three"), speaker("b", "four five six")]
    )
    return SequentialAgent(name="seq", sub_agents=[par, speaker("c")])


@scenario(
    "FLW-61 RUN-8",
    says("fail", "a error ValueError", raises="ValueError", run_config=SSE),
    says("again", "a call look", "a response look", "a text seen again", run_config=SSE),
)
def a_stream_fails_and_the_next_does_not() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        said = last(request)
        if said == "fail":
            return ValueError("no")
        return "seen again" if "=>" in said else call("look")

    return thinker("a", reply, tools=[look])


@scenario(
    "FLW-72 FLW-80 AGT-21",
    says("go", "a call look", "a response look", "a text and that is all.", run_config=SSE),
    state={"answer": "Let me look, and that is all."},
)
def an_answer_is_kept_of_several_texts() -> BaseAgent:
    """Texts beside a call and in several parts; no thoughts."""
    first = [
        types.Part(text="Let me "),
        types.Part(text="look, "),
        types.Part(function_call=types.FunctionCall(name="look", args={})),
    ]
    then = [
        types.Part(text="hm", thought=True),
        types.Part(text="and "),
        types.Part(text="that is all."),
    ]
    return speaker("a", first, then, tools=[look], output_key="answer")


@scenario(
    "FLW-71 CB-8",
    says("go", "a text ONE TWO THREE", run_config=SSE),
    state={"answer": "ONE TWO THREE"},
)
def a_callback_changes_chunks_and_the_whole() -> BaseAgent:
    def louder(callback_context: Any, llm_response: LlmResponse) -> LlmResponse:
        changed = llm_response.model_copy(deep=True)
        for part in (changed.content and changed.content.parts) or []:
            part.text = (part.text or "").upper()
        return changed

    return speaker("a", "one two three", after_model_callback=louder, output_key="answer")
