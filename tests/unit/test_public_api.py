"""The public face: ADK's names at ADK's paths (design D1)."""

import importlib
from types import ModuleType

import pytest

FACE = {
    "agents": [
        "Agent",
        "BaseAgent",
        "InvocationContext",
        "LlmAgent",
        "LoopAgent",
        "ParallelAgent",
        "RunConfig",
        "SequentialAgent",
    ],
    "agents.loop_agent": ["LoopAgent"],
    "agents.parallel_agent": ["ParallelAgent"],
    "agents.sequential_agent": ["SequentialAgent"],
    "agents.callback_context": ["CallbackContext"],
    "agents.invocation_context": ["InvocationContext"],
    "agents.readonly_context": ["ReadonlyContext"],
    "agents.run_config": ["RunConfig"],
    "agents.base_agent": ["BaseAgent"],
    "agents.llm_agent": ["Agent", "LlmAgent"],
    "apps": ["App"],
    "apps.app": ["App"],
    "events": ["Event", "EventActions"],
    "events.event": ["Event"],
    "events.event_actions": ["EventActions"],
    "models": ["BaseLlm", "Gemini", "LLMRegistry", "LlmRequest", "LlmResponse"],
    "models.base_llm": ["BaseLlm"],
    "models.google_llm": ["Gemini"],
    "models.llm_request": ["LlmRequest"],
    "models.llm_response": ["LlmResponse"],
    "models.registry": ["LLMRegistry"],
    "runners": ["InMemoryRunner", "Runner"],
    "sessions": ["BaseSessionService", "DatabaseSessionService", "InMemorySessionService"],
    "sessions.base_session_service": ["BaseSessionService", "GetSessionConfig"],
    "sessions.in_memory_session_service": ["InMemorySessionService"],
    "sessions.session": ["Session"],
    "sessions.state": ["State"],
    "tools": ["BaseTool", "FunctionTool"],
    "tools.base_tool": ["BaseTool"],
    "tools.function_tool": ["FunctionTool"],
    "tools.tool_context": ["ToolContext"],
}


def module(path: str) -> ModuleType:
    """A module of the package."""
    return importlib.import_module(f"durable_adk.{path}")


@pytest.mark.parametrize("path", FACE)
def test_adk_names_are_where_adk_has_them(path: str) -> None:
    """Moving an agent over is a change of import root."""
    for name in FACE[path]:
        assert hasattr(module(path), name), name


@pytest.mark.parametrize("path", sorted(path for path in FACE if "." not in path))
def test_what_a_package_exports_is_sorted_and_there(path: str) -> None:
    """`__all__` is the face: complete, sorted, nothing missing."""
    exported = getattr(module(path), "__all__", None)
    if exported is not None:
        assert exported == sorted(exported)
        assert all(hasattr(module(path), name) for name in exported)
        assert set(FACE[path]) <= set(exported)
