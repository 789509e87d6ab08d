"""All scenarios, by theme.

A module is a theme, and every function in it under `scenario` is one. A new theme is a module here
and a line below.
"""

import os
from types import ModuleType

from durable_adk.agents import BaseAgent
from tests.scenarios.catalogue import (
    actions,
    agent_tools,
    apps,
    artifacts,
    callbacks,
    confirmations,
    contents,
    credentials,
    custom_agents,
    errors,
    instructions,
    pausing,
    state,
    streaming,
    tools,
    transfers,
    workflow_agents,
)
from tests.scenarios.google_adks import OBJECTS, google_adks
from tests.scenarios.scenario import Scenario

_THEMES: tuple[ModuleType, ...] = (
    workflow_agents,
    custom_agents,
    callbacks,
    tools,
    state,
    instructions,
    transfers,
    pausing,
    confirmations,
    credentials,
    errors,
    contents,
    streaming,
    agent_tools,
    artifacts,
    apps,
    actions,
)

SCENARIOS = [
    value for theme in _THEMES for value in vars(theme).values() if isinstance(value, Scenario)
]
if os.environ.get(OBJECTS) and BaseAgent.__module__.startswith("durable_adk."):
    SCENARIOS = google_adks()
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
