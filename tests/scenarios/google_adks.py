"""The scenarios with google-adk's objects, which are converted as any app of a user's."""

import importlib
from dataclasses import fields
from functools import partial

from tests.adk.alias import adks_modules
from tests.scenarios.scenario import Scenario

OBJECTS = "SCENARIOS_OF_GOOGLE_ADK"
"""Variable that makes the catalogue one of google-adk's objects, in all processes of a run."""

NEEDS_OURS = {
    "an_agent_does_io_in_steps",
    "a_body_makes_mistakes",
    "callbacks_end_the_agent",
    "a_tool_ends_the_agent",
    "what_is_not_json_fails_the_run",
    "unfit_arguments_are_told_to_the_model",  # its own function tools take them
}
"""Scenarios that use what google-adk does not have (`tests.adk.declared.ONLY_OURS`)."""


def google_adks() -> list[Scenario]:
    """Return the scenarios that can be written for google-adk."""
    [catalogue] = adks_modules("tests.scenarios.catalogue")
    return [_converted(one) for one in catalogue.SCENARIOS if one.name not in NEEDS_OURS]


def _converted(theirs: Scenario) -> Scenario:
    values = {field.name: getattr(theirs, field.name) for field in fields(theirs)}
    return Scenario(**values | {"make": partial(_made, theirs)})


def _made(theirs: Scenario) -> object:
    # Not at the top: this module is imported with google-adk under our names, too.
    return importlib.import_module("durable_adk.extras").from_google_adk(theirs.make())
