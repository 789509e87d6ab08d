"""A code executor at its places in an agent's turn."""

import pytest
from google.genai import types

from durable_adk.code_executors import BaseCodeExecutor, BuiltInCodeExecutor, CodeExecutorError
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from durable_adk.code_executors.flow import (
    CONTEXT_KEY,
    ERRORS_KEY,
    MAX_OUTPUT,
    code_of,
    cut_off,
    execute,
    files_for,
    is_exhausted,
    prepare,
)
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.json_values import check_json
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.planners import PlanReActPlanner
from durable_adk.planners.planning import planned
from durable_adk.sessions import Session

OK = CodeExecutionResult(stdout="42\n")
BAD = CodeExecutionResult(stderr="boom")


class Scripted(BaseCodeExecutor):
    """Has a result for each execution, and keeps what it received."""

    results: list[CodeExecutionResult]
    seen: list[CodeExecutionInput]

    def execute_code(self, invocation_context, code_execution_input):
        self.seen.append(code_execution_input)
        return self.results[len(self.seen) - 1]


class Async(Scripted):
    """The same, async."""

    async def execute_code(self, invocation_context, code_execution_input):
        return super().execute_code(invocation_context, code_execution_input)


def scripted(*results: CodeExecutionResult, **fields) -> Scripted:
    return Scripted(results=list(results), seen=[], **fields)


def says(*parts: types.Part | str, **fields) -> LlmResponse:
    listed = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return LlmResponse(content=types.Content(role="model", parts=listed), **fields)


def later(context: CallbackContext, invocation_id: str = "i") -> CallbackContext:
    """The context of the next step, whose state has what this one's step stored."""
    session = Session(id="s", app_name="app", user_id="u", state=context.state.to_dict())
    return CallbackContext(
        StepScope(
            session=session,
            invocation_id=invocation_id,
            agent_name="me",
            branch=None,
            user_content=None,
        )
    )


CODE = "Let me:\n```python\nprint(42)\n```\nIt is 99"


def test_the_response_with_code_is_cut_off_and_itself_unchanged(context) -> None:
    """FLW-90: text and code are stored; an after-model callback's response is not touched."""
    response = says(CODE)
    found = code_of(scripted(), response, context=context)
    assert found
    content, code = found
    assert code == "print(42)"
    assert content == types.Content(
        role="model",
        parts=[
            types.Part(text="Let me:\n"),
            types.Part.from_executable_code(code=code, language="PYTHON"),
        ],
    )
    assert response == says(CODE)


@pytest.mark.parametrize(
    ("executor", "response"),
    [
        (scripted(), says("no code")),
        (scripted(), says(CODE, partial=True)),
        (scripted(), LlmResponse(error_code="SAFETY")),
        (scripted(error_retry_attempts=0), says(CODE)),
        (BuiltInCodeExecutor(), says(CODE)),
    ],
)
def test_a_response_without_code_of_ours_stands(executor, response, context) -> None:
    """Chunks, errors, and what the provider has run already (FLW-91)."""
    assert code_of(executor, response, context=context) is None


@pytest.mark.parametrize("kind", [Scripted, Async])
async def test_the_result_is_the_next_events_content(kind, context) -> None:
    """FLW-90: executors may be sync or async; a success leaves no trace in the state."""
    executor = kind(results=[OK], seen=[])
    outcome = await execute(executor, "print(42)", context=context, execution_id="i.3")
    (part,) = outcome.content.parts or []
    assert part.code_execution_result == types.CodeExecutionResult(
        outcome=types.Outcome.OUTCOME_OK, output="Code execution result:\n42\n\n"
    )
    assert (outcome.content.role, outcome.artifacts) == ("model", {})
    assert executor.seen == [CodeExecutionInput("print(42)", [], "i.3")]
    assert context.state.collect_delta() == {}


async def test_failures_in_a_row_are_counted_in_the_state(context) -> None:
    """FLW-90: no process remembers them, so each step has a context of its own here."""
    executor = scripted(BAD, OK, BAD, BAD)
    counts = []
    for step in range(4):
        assert code_of(executor, says(CODE), context=context)
        await execute(executor, "x", context=context, execution_id=f"i.{step}")
        counts.append(context.state.get(ERRORS_KEY))
        context = later(context)
    assert counts == [{"i": 1}, {}, {"i": 1}, {"i": 2}]
    assert is_exhausted(executor, context)
    assert code_of(executor, says(CODE), context=context) is None
    assert code_of(executor, says(CODE), context=later(context, "another")) is not None


async def test_an_attempt_that_was_lost_counts_for_nothing(context) -> None:
    """I10: the count rides on the result's event, and a second attempt starts from the store."""
    executor = scripted(BAD, BAD)
    for _ in range(2):
        attempt = later(context)
        await execute(executor, "x", context=attempt, execution_id="i.3")
        assert attempt.actions.state_delta == {ERRORS_KEY: {"i": 1}}
    assert executor.seen[0] == executor.seen[1]


async def test_a_stateful_executor_keeps_its_session(context) -> None:
    """The first execution's id is the session's, in this and later invocations and attempts."""
    executor = scripted(OK, OK, OK, stateful=True)
    await execute(executor, "x", context=later(context), execution_id="i.3")  # lost
    await execute(executor, "x", context=context, execution_id="i.3")
    assert context.actions.state_delta == {CONTEXT_KEY: {"execution_session_id": "i.3"}}
    await execute(executor, "y", context=later(context, "another"), execution_id="another.3")
    assert [work.execution_id for work in executor.seen] == ["i.3", "i.3", "i.3"]


async def test_output_files_are_artifacts_of_the_session(context) -> None:
    """FLW-92, S4: what code calls its files reaches neither other folders nor other sessions."""
    names = ["plot.png", "user:all.txt", "../up", "a/b c-1.csv", ".", "\x00"]
    files = [File(name, b"1", "image/png") for name in names]
    outcome = await execute(
        scripted(CodeExecutionResult(output_files=files)), "x", context=context, execution_id="i.3"
    )
    assert list(outcome.artifacts) == [
        "plot.png",
        "user_all.txt",
        "_up",
        "a_b c-1.csv",
        "file",
        "_",
    ]
    part = outcome.artifacts["plot.png"]
    assert part == types.Part.from_bytes(data=b"1", mime_type="image/png")
    (told,) = outcome.content.parts or []
    assert "`user_all.txt`" in str(told.code_execution_result)


async def test_what_code_prints_can_be_stored(context) -> None:
    """1j, S16: bounded, and without what a store refuses."""
    printed = "\x00\ud800" + "x" * 2 * MAX_OUTPUT
    outcome = await execute(
        scripted(CodeExecutionResult(stdout=printed)), "x", context=context, execution_id="i.3"
    )
    (part,) = outcome.content.parts or []
    assert part.code_execution_result
    output = part.code_execution_result.output or ""
    check_json(output)
    assert MAX_OUTPUT < len(output) < MAX_OUTPUT + 200


class Broken(BaseCodeExecutor):
    """Raises what it is set to."""

    error: BaseException

    def execute_code(self, invocation_context, code_execution_input):
        raise self.error


class UnreadableError(ValueError):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        CodeExecutorError("no"),
        SystemExit(1),
        UnreadableError(),
        ValueError("\ud800"),
    ],
    ids=repr,
)
async def test_what_an_executor_raises_fails_the_run(error, context) -> None:
    """D11: with its name, and never by taking the worker along."""
    with pytest.raises(CodeExecutorError) as raised:
        await execute(Broken(error=error), "x", context=context, execution_id="i.3")
    assert type(error) is not ValueError or isinstance(raised.value, ValueError)
    check_json(raised.value.message)
    assert context.actions.state_delta == {}


async def test_a_file_that_is_not_base64_is_the_executors_fault(context) -> None:
    """ADK's convention for text; the message names the file."""
    bad = CodeExecutionResult(output_files=[File("a.txt", "hi there")])
    with pytest.raises(CodeExecutorError, match=r"a\.txt"):
        await execute(scripted(bad), "x", context=context, execution_id="i.3")


def test_earlier_code_is_shown_in_the_first_fences() -> None:
    """The request is for a model that writes code as text; the stored events stay as they are."""
    stored = types.Content(
        role="model", parts=[types.Part.from_executable_code(code="E", language="PYTHON")]
    )
    result = types.Content(
        role="model",
        parts=[types.Part.from_code_execution_result(outcome="OUTCOME_OK", output="o")],
    )
    before = [stored.model_copy(deep=True), result.model_copy(deep=True)]
    request = LlmRequest(contents=[stored, result])
    prepare(scripted(), request)
    assert [(c.role, c.parts[0].text) for c in request.contents if c.parts] == [
        ("model", "```tool_code\nE\n```"),
        ("user", "```tool_output\no\n```"),
    ]
    assert [stored, result] == before


def test_the_providers_executor_gets_parts_and_its_tool() -> None:
    """FLW-91: Gemini takes code and results as they are."""
    stored = types.Content(
        role="model", parts=[types.Part.from_executable_code(code="E", language="PYTHON")]
    )
    request = LlmRequest(contents=[stored])
    prepare(BuiltInCodeExecutor(), request)
    assert request.contents == [stored]
    assert request.config.tools


@pytest.mark.parametrize("optimize", [False, True])
def test_data_files_go_to_the_code_if_asked_for(optimize: bool) -> None:
    """The model is shown the name under which the code finds the file."""
    data = types.Part.from_bytes(data=b"a,b\n", mime_type="text/csv")
    content = types.Content(role="user", parts=[data])
    request = LlmRequest(contents=[content])
    executor = scripted(optimize_data_file=optimize)
    prepare(executor, request)
    files = files_for(executor, [content])
    (part,) = request.contents[0].parts or []
    if optimize:
        assert part.text == f"\nAvailable file: `{files[0].name}`\n"
    else:
        assert (files, part) == ([], data)
    assert content.parts == [data]


async def test_code_in_a_plan_is_run(context) -> None:
    """Code is taken before the planner, to whom a whole section would be a thought; as in ADK."""
    response = says("/*PLANNING*/ p /*ACTION*/\n```python\nx\n```\n/*FINAL_ANSWER*/ made up")
    found = code_of(scripted(), response, context=context)
    assert found
    cut_off = response.model_copy(update={"content": found[0]})
    result = await planned(PlanReActPlanner(), context, cut_off)
    assert result.content
    thought, code = result.content.parts or []
    assert (thought.text, thought.thought) == (" p \n", True)
    assert code.executable_code


def test_code_that_is_not_run_any_more_is_text(context) -> None:
    """FLW-90, EVT-10: an event that ends with code would have it run, or end the run in vain."""
    executor = scripted(error_retry_attempts=0)
    part = types.Part.from_executable_code(code="x", language=types.Language.PYTHON)
    given = LlmResponse(content=types.Content(role="model", parts=[part]))
    shown = cut_off(executor, given, context=context)
    assert shown.content
    assert shown.content.parts == [types.Part(text="```tool_code\nx\n```")]
    assert given.content
    assert given.content.parts == [part]


async def test_files_without_a_place_are_named_and_left_out(context) -> None:
    """FLW-92: the model is not told of artifacts that are not there."""
    executor = scripted(CodeExecutionResult(output_files=[File("a.txt", b"x")]))
    outcome = await execute(executor, "x", context=context, execution_id="e", keep_files=False)
    assert outcome.artifacts == {}
    assert outcome.content.parts
    result = outcome.content.parts[0].code_execution_result
    assert result
    assert "[not kept, as there is no artifact service: a.txt]" in (result.output or "")
