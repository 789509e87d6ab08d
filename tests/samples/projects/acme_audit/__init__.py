"""A plugin for ADK that is installed beside the agents, as from a package index."""

from .plugin import AuditPlugin

__version__ = "1.4.0"
__all__ = ["AuditPlugin"]
