"""`EnterpriseWebSearchTool` at ADK's import path."""

from durable_adk.tools._provider_tools import EnterpriseWebSearchTool, enterprise_web_search_tool

__all__ = ["EnterpriseWebSearchTool", "enterprise_web_search_tool"]
