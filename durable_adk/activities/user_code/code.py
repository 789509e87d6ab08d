"""Executes code that a model wrote."""

from durable_adk.activities.step import ActiveStep
from durable_adk.agents.llm_agent import LlmAgent
from durable_adk.calling import time_limit
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import pending_code
from durable_adk.code_executors.flow import execute, files_for
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import StepScope
from durable_adk.errors import AgentDefinitionError, AgentError, CodeExecutorError
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.json_values import check_json
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import CodeStep, StepResult


async def execute_code(active: ActiveStep[CodeStep]) -> StepResult:
    """Run the code at the end of the agent's last event and return the result event (FLW-90).

    The code is read from the committed event. It runs at least once: if the worker dies during the
    run, another runs it again with the same `execution_id`, and saves its files under the same
    keys and therefore as the same versions (TRAP-41).

    Raises:
        CodeExecutorError: The code could not be run, or did not finish in time.
    """
    await active.load()
    step, agent, scope = active.step, active.agent, active.scope
    executor = agent.code_executor if isinstance(agent, LlmAgent) else None
    if executor is None:
        raise AgentDefinitionError(f"Agent {agent.name!r} has no code executor any more.")
    context = CallbackContext(scope)
    code = _find_code(scope)
    await active.attempt.begins()
    try:
        async with time_limit(step.attempt_timeout):
            failpoint("code.before_run")
            event = await _result(active, executor, code, context)
            failpoint("code.after_run")
    except TimeoutError:
        raise CodeExecutorError(
            f"{type(executor).__name__} did not come back in {step.attempt_timeout:g} s; the code "
            "may still run."
        ) from None
    check_json(context.state.collect_delta(), "state_delta")
    check_event(event, f"The result of {step.agent}'s code")
    return StepResult(event=event, end_invocation=scope.end_invocation)


async def _result(
    active: ActiveStep[CodeStep],
    executor: BaseCodeExecutor,
    code: str,
    context: CallbackContext,
) -> Event:
    step, scope = active.step, active.scope
    keep_files = scope.services.artifacts is not None
    outcome = await execute(
        executor,
        code,
        context=context,
        execution_id=step.event_id,
        input_files=files_for(executor, (event.content for event in scope.events)),
        keep_files=keep_files,
    )
    for name, artifact in outcome.artifacts.items():
        await context.save_artifact(name, artifact)
    return Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author=step.agent,
        branch=step.branch,
        content=outcome.content,
        actions=context.actions,
    )


def _find_code(scope: StepScope) -> str:
    """Return the code of the agent's most recent event that contains code."""
    place = (scope.invocation_id, scope.agent_name, scope.branch)
    for event in reversed(scope.events):
        if (event.invocation_id, event.author, event.branch) == place:
            code = pending_code(event.content)
            if code is not None:
                return code
    raise AgentError(
        f"No code of {scope.agent_name} is in the session. A custom agent must yield every event "
        "its sub-agents yield, before it asks for the next."
    )
