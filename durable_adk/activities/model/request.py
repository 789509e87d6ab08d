"""Builds the request of one model call with an ordered list of processors (FLW-2)."""

from collections.abc import Awaitable, Callable

from google.genai import types

from durable_adk.activities.model.static_instruction import static_files, static_texts, with_dynamic
from durable_adk.activities.tool.agent_tools import TRANSFER, tools_of
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.instructions import render
from durable_adk.agents.llm_agent import InstructionProvider, LlmAgent
from durable_adk.calling import call, contained
from durable_adk.calling.copies import own_copy
from durable_adk.code_executors.flow import prepare
from durable_adk.context.activity import CallbackContext, ReadonlyContext, ToolContext
from durable_adk.context.step_scope import StepScope
from durable_adk.conversation.contents import build_contents
from durable_adk.errors import (
    CallbackError,
    ToolError,
    reported_as,
)
from durable_adk.google_objects import callable_from_google_adk
from durable_adk.models.llm_request import LlmRequest
from durable_adk.planners.planning import apply_planner
from durable_adk.tools.base_tool import BaseTool
from durable_adk.tools.base_toolset import BaseToolset

AGENT_LABEL = "adk_agent_name"
"""ADK's label of each request."""


async def build_request(agent: LlmAgent, scope: StepScope) -> LlmRequest:
    """Build the model request of this step.

    Raises:
        InstructionError: The instruction names a variable that does not exist (AGT-13).
        CallbackError: An instruction provider raised.
        ToolError: A tool raised while it changed the request.
    """
    request = LlmRequest()
    for processor in _PROCESSORS:
        await processor(agent, scope, request)
    return request


def label(request: LlmRequest, agent: LlmAgent) -> None:
    """Add the agent's name as in ADK, so that a bill can be broken down by agent."""
    request.config.labels = {AGENT_LABEL: agent.name, **(request.config.labels or {})}


async def _basic(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    del scope
    request.model = agent.canonical_model.model
    if agent.generate_content_config:
        request.config = agent.generate_content_config.model_copy(deep=True)
    if agent.output_schema is not None and not agent.answers_by_tool:
        shown = isinstance(agent.output_schema, dict | types.Schema)  # and may be changed
        request.set_output_schema(own_copy(agent.output_schema) if shown else agent.output_schema)


async def _run_options(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    """Merge the run's options over the agent's, header by header and label by label."""
    del agent
    config, given = request.config, scope.run_config
    if given.labels:
        config.labels = {**(config.labels or {}), **given.labels}
    if given.http_options:
        config.http_options = _merged(config.http_options, given.http_options)


def _merged(own: types.HttpOptions | None, given: types.HttpOptions) -> types.HttpOptions:
    merged = own.model_copy(deep=True) if own else types.HttpOptions()
    for name, value in given:
        if value is not None:
            before = getattr(merged, name)
            both = isinstance(before, dict) and isinstance(value, dict)
            setattr(merged, name, {**before, **value} if both else value)
    return merged


async def _instructions(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    root = agent.root_agent
    if isinstance(root, LlmAgent):
        request.append_instructions([await _text(root.global_instruction, scope)])
    if agent.static_instruction is None:
        request.append_instructions([await _text(agent.instruction, scope)])
    else:
        request.append_instructions(static_texts(agent.static_instruction))


async def _identity(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    del scope
    about = f' Your description is "{agent.description}".' if agent.description else ""
    request.append_instructions([f'You are an agent. Your internal name is "{agent.name}".{about}'])


async def _transfer(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    """List the agents that the model may transfer to, if there are any (AGT-52)."""
    del scope
    if not agent.transfer_targets:
        return
    request.append_instructions([_HAND_OVER, *map(_introduction, agent.transfer_targets)])
    parent = agent.parent_agent
    if parent is not None and parent in agent.transfer_targets:
        request.append_instructions(
            [f"When nobody fits, hand over to {parent.name}, from which you have it."]
        )


_HAND_OVER = (
    "Other agents can take this conversation over from you. When one of them is better placed to "
    f"answer, by its description, call {TRANSFER} with its name and say nothing else; when you "
    "are, answer yourself."
)


def _introduction(target: BaseAgent) -> str:
    return f"Agent name: {target.name}\nAgent description: {target.description}"


async def _contents(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    request.contents = (scope.build_contents or build_contents)(
        scope.events if scope.prompt is None else scope.prompt,
        agent_name=agent.name,
        branch=scope.branch,
        include_contents=agent.include_contents,
        include_thoughts_from_other_agents=scope.run_config.include_thoughts_from_other_agents,
        model_input_context=scope.run_config.model_input_context,
    )


async def _planning(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    if agent.planner is not None:
        await apply_planner(agent.planner, ReadonlyContext(scope), request)


async def _code(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    del scope
    if agent.code_executor is not None:
        prepare(agent.code_executor, request)


async def _static(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    """Add the instruction that a static one displaces from the system instruction (AGT-16)."""
    if agent.static_instruction is not None:
        files = static_files(agent.static_instruction)
        dynamic = await _text(agent.instruction, scope)
        request.contents = [*files, *with_dynamic(request.contents, dynamic)]


async def _tools(agent: LlmAgent, scope: StepScope, request: LlmRequest) -> None:
    context = ToolContext(scope, function_call_id="")
    for item in agent.tools:
        if isinstance(item, BaseToolset):
            await _prepared(item, context, request)
    for tool in (await tools_of(agent, context)).values():
        await _prepared(tool, context, request)


async def _prepared(one: BaseTool | BaseToolset, context: ToolContext, request: LlmRequest) -> None:
    """Let a tool or toolset, which is user code, change the request.

    Raises:
        ToolError: The tool or toolset raised.
    """
    with reported_as(ToolError):
        await contained(one.process_llm_request(tool_context=context, llm_request=request))


_PROCESSORS: list[Callable[[LlmAgent, StepScope, LlmRequest], Awaitable[None]]] = [
    _basic,
    _run_options,
    _instructions,  # before the identity: the order of the instruction parts (AGT-15)
    _identity,
    _transfer,
    _contents,
    _planning,  # after the contents, because it unmarks the model's own thoughts there
    _code,
    _static,
    _tools,  # last: a tool may change all that the others built
]


async def _text(instruction: str | InstructionProvider, scope: StepScope) -> str:
    if isinstance(instruction, str):
        load = CallbackContext(scope).load_artifact if scope.services.artifacts else None
        state, name = scope.session.state, scope.agent_name
        return await render(instruction, state, agent=name, load_artifact=load)
    with reported_as(CallbackError):
        provide = callable_from_google_adk(instruction)
        return str(await contained(call(provide, ReadonlyContext(scope))) or "")
