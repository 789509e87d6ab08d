"""ADK's path of the web search for enterprises."""

from durable_adk.tools._provider_tools import EnterpriseWebSearchTool, enterprise_web_search_tool

__all__ = ["EnterpriseWebSearchTool", "enterprise_web_search_tool"]
