"""The public face: ADK's names at ADK's paths (D1)."""

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
    "agents.run_config": ["RunConfig", "StreamingMode", "ToolThreadPoolConfig"],
    "agents.context_cache_config": ["ContextCacheConfig"],
    "agents.base_agent": ["BaseAgent"],
    "agents.llm_agent": ["Agent", "LlmAgent"],
    "apps": ["App", "EventsCompactionConfig", "ResumabilityConfig"],
    "apps.app": ["App", "EventsCompactionConfig", "ResumabilityConfig"],
    "apps.base_events_summarizer": ["BaseEventsSummarizer"],
    "apps.llm_event_summarizer": ["LlmEventSummarizer"],
    "artifacts": [
        "BaseArtifactService",
        "FileArtifactService",
        "GcsArtifactService",
        "InMemoryArtifactService",
    ],
    "artifacts.base_artifact_service": ["ArtifactVersion", "BaseArtifactService"],
    "artifacts.file_artifact_service": ["FileArtifactService"],
    "artifacts.in_memory_artifact_service": ["InMemoryArtifactService"],
    "auth": [
        "AuthConfig",
        "AuthCredential",
        "AuthCredentialTypes",
        "AuthScheme",
        "AuthSchemeType",
        "OAuth2Auth",
        "OpenIdConnectWithConfig",
    ],
    "auth.auth_credential": [
        "AuthCredential",
        "AuthCredentialTypes",
        "HttpAuth",
        "HttpCredentials",
        "OAuth2Auth",
        "ServiceAccount",
    ],
    "auth.auth_schemes": ["AuthScheme", "AuthSchemeType", "OpenIdConnectWithConfig"],
    "auth.auth_tool": ["AuthConfig", "AuthToolArguments"],
    "auth.credential_service.base_credential_service": ["BaseCredentialService"],
    "auth.credential_service.in_memory_credential_service": ["InMemoryCredentialService"],
    "code_executors": [
        "BaseCodeExecutor",
        "BuiltInCodeExecutor",
        "ContainerCodeExecutor",
        "UnsafeLocalCodeExecutor",
    ],
    "code_executors.base_code_executor": ["BaseCodeExecutor"],
    "code_executors.built_in_code_executor": ["BuiltInCodeExecutor"],
    "code_executors.code_execution_utils": [
        "CodeExecutionInput",
        "CodeExecutionResult",
        "CodeExecutionUtils",
        "File",
    ],
    "code_executors.container_code_executor": ["ContainerCodeExecutor"],
    "code_executors.unsafe_local_code_executor": ["UnsafeLocalCodeExecutor"],
    "events": ["Event", "EventActions", "RequestInput"],
    "events.event": ["Event", "NodeInfo"],
    "events.request_input": ["RequestInput"],
    "events.event_actions": ["EventActions", "EventCompaction"],
    "examples": ["BaseExampleProvider", "Example"],
    "examples.base_example_provider": ["BaseExampleProvider"],
    "examples.example": ["Example"],
    "memory": [
        "BaseMemoryService",
        "InMemoryMemoryService",
        "PostgresMemoryService",
        "SqliteMemoryService",
    ],
    "memory.base_memory_service": ["BaseMemoryService", "SearchMemoryResponse"],
    "memory.in_memory_memory_service": ["InMemoryMemoryService"],
    "memory.memory_entry": ["MemoryEntry"],
    "models": ["BaseLlm", "Gemini", "LLMRegistry", "LlmRequest", "LlmResponse"],
    "models.base_llm": ["BaseLlm"],
    "models.google_llm": ["Gemini"],
    "models.llm_request": ["LlmRequest"],
    "models.llm_response": ["LlmResponse"],
    "models.registry": ["LLMRegistry"],
    "planners": ["BasePlanner", "BuiltInPlanner", "PlanReActPlanner"],
    "planners.base_planner": ["BasePlanner"],
    "planners.built_in_planner": ["BuiltInPlanner"],
    "planners.plan_re_act_planner": ["PlanReActPlanner"],
    "plugins": ["BasePlugin", "LoggingPlugin", "PluginManager", "ReflectAndRetryToolPlugin"],
    "plugins.base_plugin": ["BasePlugin"],
    "plugins.context_filter_plugin": ["ContextFilterPlugin"],
    "plugins.global_instruction_plugin": ["GlobalInstructionPlugin"],
    "plugins.logging_plugin": ["LoggingPlugin"],
    "plugins.plugin_manager": ["PluginManager"],
    "plugins.reflect_retry_tool_plugin": ["ReflectAndRetryToolPlugin"],
    "plugins.save_files_as_artifacts_plugin": ["SaveFilesAsArtifactsPlugin"],
    "runners": ["InMemoryRunner", "Runner"],
    "sessions": [
        "BaseSessionService",
        "DatabaseSessionService",
        "InMemorySessionService",
        "StateSchemaError",
    ],
    "sessions.base_session_service": ["BaseSessionService", "GetSessionConfig"],
    "sessions.in_memory_session_service": ["InMemorySessionService"],
    "sessions.session": ["Session"],
    "sessions.state": ["State"],
    "tools": [
        "AgentTool",
        "AuthToolArguments",
        "BaseTool",
        "ExampleTool",
        "FunctionTool",
        "LongRunningFunctionTool",
        "ToolContext",
        "TransferToAgentTool",
        "enterprise_web_search",
        "exit_loop",
        "get_user_choice",
        "google_maps_grounding",
        "google_search",
        "load_artifacts",
        "load_memory",
        "preload_memory",
        "transfer_to_agent",
        "url_context",
    ],
    "tools.agent_tool": ["AgentTool"],
    "tools.base_tool": ["BaseTool"],
    "tools.base_toolset": ["BaseToolset", "ToolPredicate"],
    "tools.enterprise_search_tool": ["EnterpriseWebSearchTool"],
    "tools.example_tool": ["ExampleTool"],
    "tools.exit_loop_tool": ["exit_loop"],
    "tools.function_tool": ["FunctionTool"],
    "tools.get_user_choice_tool": ["get_user_choice_tool"],
    "tools.google_search_tool": ["GoogleSearchTool", "google_search"],
    "tools.load_artifacts_tool": ["LoadArtifactsTool", "load_artifacts_tool"],
    "tools.load_memory_tool": ["LoadMemoryTool", "load_memory_tool"],
    "tools.long_running_tool": ["LongRunningFunctionTool"],
    "tools.mcp_tool": ["McpTool", "McpToolset", "StdioConnectionParams"],
    "tools.mcp_tool.mcp_toolset": ["MCPToolset", "McpToolset"],
    "tools.preload_memory_tool": ["PreloadMemoryTool", "preload_memory_tool"],
    "tools.set_model_response_tool": ["SetModelResponseTool"],
    "tools.tool_confirmation": ["ToolConfirmation"],
    "tools.tool_context": ["ToolContext"],
    "tools.transfer_to_agent_tool": ["TransferToAgentTool", "transfer_to_agent"],
    "workflow": [
        "BaseNode",
        "DEFAULT_ROUTE",
        "Edge",
        "FunctionNode",
        "JoinNode",
        "Node",
        "NodeTimeoutError",
        "RetryConfig",
        "START",
        "Workflow",
        "node",
    ],
    "tools.url_context_tool": ["UrlContextTool", "url_context"],
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
        assert exported == sorted(exported, key=lambda name: (not name.isupper(), name))
        assert all(hasattr(module(path), name) for name in exported)
        assert set(FACE[path]) <= set(exported)
