"""Conversion of google-adk's apps to this package's."""

from typing import Any

from google.adk.apps.app import App as AdkApp

from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.apps.app import App
from durable_adk.interop.nodes import our_node
from durable_adk.interop.options import our_compaction, our_resumability
from durable_adk.interop.plugin import AdkPlugin


def our_app(app: AdkApp) -> App:
    """Convert an app of google-adk.

    Raises:
        AgentDefinitionError: A part of it cannot run durably; the message names it.
    """
    options: dict[str, Any] = {}
    if app.events_compaction_config is not None:
        options["events_compaction_config"] = our_compaction(app.events_compaction_config)
    if app.resumability_config is not None:
        options["resumability_config"] = our_resumability(app.resumability_config)
    if app.context_cache_config is not None:
        options["context_cache_config"] = ContextCacheConfig()
    return App(
        name=app.name,
        root_agent=our_node(app.root_agent),
        plugins=[AdkPlugin(plugin) for plugin in app.plugins],
        **options,
    )
