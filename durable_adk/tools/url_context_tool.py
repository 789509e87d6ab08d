"""`UrlContextTool` at ADK's import path."""

from durable_adk.tools._provider_tools import UrlContextTool, url_context

__all__ = ["UrlContextTool", "url_context"]
