"""What may be in an event besides plain text."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, RunConfig
from durable_adk.models import LlmRequest, LlmResponse
from tests.scenarios.parts import last, shown, speaker, text, thinker
from tests.scenarios.scenario import says, scenario


def _call(name: str, **fields: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args={}), **fields)


def look() -> str:
    """Look."""
    return "seen"


@scenario(
    "FLW-80 FLW-30 EVT-10",
    says("go", "a call look", "a response look", "a text done"),
    says("on", "a text b'sign' True"),
)
def thoughts_and_signatures_are_kept() -> BaseAgent:
    """What the model signed comes back to it as it was."""

    def reply(request: LlmRequest) -> Any:
        turns = [content for content in request.contents if content.role == "model"]
        thought = types.Part(text="I should look", thought=True)
        if not turns:
            return [thought, _call("look", thought_signature=b"sign")]
        if len(turns) == 1:
            return [types.Part(text="hm", thought=True), types.Part(text="done")]
        first, call = turns[0].parts
        return f"{call.thought_signature} {first.thought}"

    return thinker("a", reply, tools=[look])


@scenario(
    "EVT-6 EVT-10 FLW-43",
    says("go", "a call look,look", "a response look,look", "a text both seen"),
)
def text_and_calls_in_one_event() -> BaseAgent:
    parts = [types.Part(text="Let me "), _call("look"), types.Part(text="look"), _call("look")]
    return speaker("a", parts, "both seen", tools=[look])


@scenario(
    "EVT-8 EVT-10 FLW-1",
    says("go", "a text computing", "a text it is 4"),
)
def an_answer_that_ends_in_a_result_is_not_the_last() -> BaseAgent:
    """The model is asked again after code that its provider has run."""
    code = types.ExecutableCode(code="2 + 2", language=types.Language.PYTHON)
    result = types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="4")
    first = [
        types.Part(text="computing"),
        types.Part(executable_code=code),
        types.Part(code_execution_result=result),
    ]
    return speaker("a", first, "it is 4")


@scenario(
    "FLW-30 EVT-3 RUN-18",
    says(
        types.Content(
            role="user",
            parts=[
                types.Part(text="what is this?"),
                types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
            ],
        ),
        "a text b'\\x00\\xff'",
    ),
    says("again", "a text "),
    says(
        "and now",
        "a text user:what is this?+blob model:b'\\x00\\xff' user:again model:blob user:and now",
    ),
)
def images_of_user_and_model() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        blobs = [part.inline_data for part in request.contents[-1].parts if part.inline_data]
        if blobs:
            return str(blobs[0].data)
        image = types.Blob(data=bytes(range(256)), mime_type="image/png")
        return types.Part(inline_data=image) if last(request) == "again" else shown(request)

    return thinker("a", reply)


@scenario(
    "EVT-3 TRAP-21",
    says("Ünïcödé 🦜 \u202e\n\t\"'\\", "a text Ünïcödé 🦜 \u202e\n\t\"'\\"),
    says("long", f"a text {'long ' * 4000}"),
)
def text_of_any_kind() -> BaseAgent:
    return thinker("a", lambda r: "long " * 4000 if last(r) == "long" else last(r))


@scenario(
    "RUN-27 EVT-1",
    says("go", "a text said", run_config=RunConfig(custom_metadata={"trace": "t1"})),
    says("go on", "a text said"),
)
def metadata_of_run_and_model() -> BaseAgent:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=7, candidates_token_count=3, total_token_count=10
    )
    response = LlmResponse(
        content=text("said"),
        usage_metadata=usage,
        finish_reason=types.FinishReason.STOP,
        custom_metadata={"model": "m"},
        avg_logprobs=-0.5,
    )
    return thinker("a", lambda _: response)
