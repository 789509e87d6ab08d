"""Fills an instruction template in a custom instruction provider."""

from durable_adk.agents.instructions import render
from durable_adk.agents.llm_agent import InstructionProvider
from durable_adk.context.activity import Context, ReadonlyContext

__all__ = ["InstructionProvider", "ReadonlyContext", "inject_session_state"]


async def inject_session_state(template: str, readonly_context: ReadonlyContext) -> str:
    """Fill ``{key}`` and ``{artifact.name}`` as in an instruction that is not a function (AGT-13).

    Raises:
        InstructionError: A name has no value.
    """
    invocation = readonly_context.get_invocation_context()
    load = Context(invocation).load_artifact if invocation.artifact_service else None
    state, name = readonly_context.state, readonly_context.agent_name
    return await render(template, state, agent=name, load_artifact=load)
