"""Plugins: hooks around all agents, models and tools of an app."""

from durable_adk.plugins.base_plugin import BasePlugin
from durable_adk.plugins.context_filter_plugin import ContextFilterPlugin
from durable_adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from durable_adk.plugins.logging_plugin import LoggingPlugin
from durable_adk.plugins.plugin_manager import PluginManager
from durable_adk.plugins.reflect_retry_tool_plugin import ReflectAndRetryToolPlugin
from durable_adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin

__all__ = [
    "BasePlugin",
    "ContextFilterPlugin",
    "GlobalInstructionPlugin",
    "LoggingPlugin",
    "PluginManager",
    "ReflectAndRetryToolPlugin",
    "SaveFilesAsArtifactsPlugin",
]
