"""All apps that worker processes of the tests serve."""

from pathlib import Path

from durable_adk.apps import App
from tests.support.chaos_apps import Traces, chaos_apps
from tests.support.contract_apps import contract_apps
from tests.support.graph_apps import (
    AHEAD,
    caller_app,
    graph_app,
    items_app,
    retrying_app,
    talking_app,
)
from tests.support.matrix_apps import Deadly, asking, drawing, ending, long, saving, stepping
from tests.support.storm_apps import storm_app


def all_apps(folder: Path) -> dict[str, App]:
    """Return the apps by name, with their traces in `folder`."""
    traces = Traces(folder)
    more = [saving(traces), asking(traces), ending(traces), long(), storm_app(folder)]
    more += [graph_app(traces), graph_app(traces, AHEAD), retrying_app(traces), items_app(traces)]
    more += [caller_app(traces), talking_app(traces), stepping(traces), drawing()]
    more.append(App(name="deadly", root_agent=Deadly(name="deadly")))
    return chaos_apps(folder) | contract_apps(folder) | {app.name: app for app in more}
