"""Code that a model writes, in a run (FLW-90 to FLW-92, AGT-23)."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, Field

from durable_adk.agents import LlmAgent, SequentialAgent
from durable_adk.code_executors import (
    BaseCodeExecutor,
    CodeExecutorError,
    SubprocessCodeExecutor,
)
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
)
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.settings import Limits
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send, state, stored
from tests.support.waiting import PATIENCE


def code(text: str, before: str = "Let me see. ") -> str:
    """What a model writes that wants code to be run; what comes behind is made up."""
    return f"{before}```python\n{text}\n```\nIt printed 17."


class Recording(BaseCodeExecutor):
    """Notes what it receives, and answers from a script."""

    results: Sequence[Any] = ("42\n",)
    seen: list[CodeExecutionInput] = Field(default_factory=list)

    async def execute_code(
        self, invocation_context: Any, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        self.seen.append(code_execution_input)
        result = self.results[min(len(self.seen), len(self.results)) - 1]
        if isinstance(result, Exception):
            raise result
        return CodeExecutionResult(stdout=result) if isinstance(result, str) else result


def coding(*replies: Any, **fields: Any) -> LlmAgent:
    """An agent whose code is run."""
    fields = {"code_executor": Recording()} | fields
    return LlmAgent(name="a", model=ScriptedModel(replies=replies), **fields)


def seen(agent: LlmAgent) -> list[CodeExecutionInput]:
    """What the agent's executor received."""
    assert isinstance(agent.code_executor, Recording)
    return agent.code_executor.seen


def requests(agent: LlmAgent) -> list[LlmRequest]:
    """What the agent's model was asked."""
    assert isinstance(agent.model, ScriptedModel)
    return agent.model.requests


def shown(request: LlmRequest) -> list[tuple[str | None, str]]:
    """The texts of a request, each with its role."""
    return [
        (content.role, "".join(part.text or "?" for part in content.parts or []))
        for content in request.contents
    ]


async def test_code_is_run_and_the_model_goes_on_with_its_result(make_runner: MakeRunner) -> None:
    """FLW-90, EVT-8, EVT-10: code, result, answer; what the model made up is nowhere."""
    agent = coding(
        code("print(6 * 7)"), "It is 42.", code_executor=SubprocessCodeExecutor(allow_unsafe=True)
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert (await stored(runner))[1:] == events
    asked, result, answer = events
    assert [event.author for event in events] == ["a", "a", "a"]
    assert asked.text == "Let me see. "
    assert asked.parts[-1].executable_code
    assert asked.parts[-1].executable_code.code == "print(6 * 7)"
    (part,) = result.parts
    assert part.code_execution_result
    assert part.code_execution_result.outcome is types.Outcome.OUTCOME_OK
    assert "42" in (part.code_execution_result.output or "")
    assert not result.is_final_response()
    assert answer.text == "It is 42."
    assert "17" not in str([event.content for event in events])
    assert shown(requests(agent)[1]) == [
        ("user", "hello"),
        ("model", "Let me see. ```tool_code\nprint(6 * 7)\n```"),
        ("user", "```tool_output\nCode execution result:\n42\n\n\n```"),
    ]


async def test_the_answer_is_the_text_that_comes_without_code(make_runner: MakeRunner) -> None:
    """AGT-21, AGT-22, EVT-10: an event that ends with code is no answer, though it is final."""

    class Answer(BaseModel):
        n: int

    agent = coding(code("print(42)"), '{"n": 42}', output_schema=Answer, output_key="answer")
    runner = await make_runner(agent)
    events = await send(runner)
    assert events[0].is_final_response()
    assert events[0].actions.state_delta == {}
    assert await state(runner) == {"answer": {"n": 42}}


async def test_code_that_fails_is_told_and_counted(make_runner: MakeRunner) -> None:
    """FLW-90: after so many failures in a row the model's code stays text, and ends the run."""
    failing = CodeExecutionResult(stderr="NameError: x", exit_code=1)
    agent = coding(
        *[code("x")] * 3, code_executor=Recording(results=[failing], error_retry_attempts=2)
    )
    runner = await make_runner(agent)
    events = await send(runner)
    assert len(seen(agent)) == 2
    results = [event for event in events if event.has_trailing_code_execution_result()]
    outcomes = [event.parts[0].code_execution_result for event in results]
    assert [item.outcome for item in outcomes if item] == [types.Outcome.OUTCOME_FAILED] * 2
    assert "NameError" in str(shown(requests(agent)[1])[-1])
    assert events[-1].text == code("x")
    assert len(events) == 5


async def test_code_as_a_part_is_not_run_for_ever(make_runner: MakeRunner) -> None:
    """FLW-90: a model that gives code as parts is stopped by the same count."""
    failing = CodeExecutionResult(stderr="NameError: x", exit_code=1)
    part = types.Part.from_executable_code(code="x", language=types.Language.PYTHON)
    agent = coding(*[part] * 5, code_executor=Recording(results=[failing], error_retry_attempts=1))
    runner = await make_runner(agent)
    events = await send(runner)
    assert len(seen(agent)) == 1
    assert events[-1].text == "```tool_code\nx\n```"
    assert len(events) == 3


async def test_an_executor_that_cannot_run_ends_the_run(make_runner: MakeRunner) -> None:
    """RUN-8: an error event, and the exception by its own name; the next turn works again."""
    executor = Recording(results=[OSError("no sandbox"), "42"])
    agent = coding(code("x"), "Anyway.", code_executor=executor)
    runner = await make_runner(agent)
    with pytest.raises(OSError, match=r"^no sandbox$"):
        await send(runner)
    assert (await stored(runner))[-1].error_code == "OSError"
    assert [event.text for event in await send(runner, "again")] == ["Anyway."]


async def test_an_execution_that_takes_too_long_is_given_up(make_runner: MakeRunner) -> None:
    """F12: an executor without a limit of its own has that of the tools."""

    class Hanging(BaseCodeExecutor):
        async def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
            await asyncio.Event().wait()

    agent = coding(code("x"), code_executor=Hanging())
    runner = await make_runner(agent, limits=Limits(tool_timeout=0.3))
    with pytest.raises(CodeExecutorError, match=r"did not come back in 0\.3 s"):
        await asyncio.wait_for(send(runner), PATIENCE)


async def test_calls_beside_code_wait_for_its_result(make_runner: MakeRunner) -> None:
    """FLW-90: the model decides on them anew; no call is left without a response."""

    def note(word: str) -> str:
        """Note a word."""
        return word

    both = types.Content(
        role="model",
        parts=[types.Part(text=code("print(1)")), *(call("note", word="w").parts or [])],
    )
    agent = coding(both, call("note", word="42"), "done", tools=[note])
    events = await send(await make_runner(agent))
    assert [gist(event) for event in events[2:]] == [
        "a call note",
        "a response note",
        "a text done",
    ]
    assert not events[0].get_function_calls()


async def test_other_agents_see_code_as_a_quotation(make_runner: MakeRunner) -> None:
    """FLW-22: neither code nor result is in the prompt as such, so no model continues from it."""
    first = coding(code("print(42)"), "It is 42.")
    second = LlmAgent(name="b", model=ScriptedModel(replies=["Fine."]))
    root = SequentialAgent(name="root", sub_agents=[first, second])
    await send(await make_runner(root))
    (request,) = requests(second)
    parts = [part for content in request.contents for part in content.parts or []]
    assert not any(part.executable_code or part.code_execution_result for part in parts)
    text = str([part.text for part in parts])
    assert "[a] wrote code:" in text
    assert "print(42)" in text
    assert "[a] code returned result:" in text


async def test_without_an_executor_no_code_is_run(make_runner: MakeRunner) -> None:
    """S20: code stays text."""
    agent = coding(code("print(1)"), code_executor=None)
    (event,) = await send(await make_runner(agent))
    assert event.text == code("print(1)")


async def test_an_execution_can_end_the_run(make_runner: MakeRunner) -> None:
    """CTX-11: the result is stored, the model is not asked again; state rides on the result."""

    class Ending(Recording):
        async def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
            invocation_context.state["ran"] = True
            invocation_context.end_invocation()
            return CodeExecutionResult(stdout="enough")

    agent = coding(code("x"), "never", code_executor=Ending())
    runner = await make_runner(agent)
    events = await send(runner)
    assert len(events) == 2
    assert events[1].actions.state_delta == {"ran": True}
    assert await state(runner) == {"ran": True}


async def test_each_execution_has_an_id_of_its_own(make_runner: MakeRunner) -> None:
    """DUR-9: so that its changes outside can be distinguished; the code is the stored one's."""
    agent = coding(code("one"), code("two"), "done")
    await send(await make_runner(agent))
    assert [work.code for work in seen(agent)] == ["one", "two"]
    assert len({work.execution_id for work in seen(agent)}) == 2
