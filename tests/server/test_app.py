"""The server's routes, side by side."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, cast

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import Mount, compile_path

from durable_adk.server.app import app as server
from durable_adk.sessions import InMemorySessionService


def test_each_route_is_found_and_those_that_are_asked_most_come_first() -> None:
    """Routes are tried in turn: one before it that takes its path would answer instead."""
    app = server(session_service=InMemorySessionService(), client=cast("Any", None))
    routes = [
        (method, route.path or "")
        for route in iter_route_contexts(app.routes)
        if not isinstance(route.original_route, Mount)
        for method in route.methods or ()
    ]
    known = [(method, path, compile_path(path)[0]) for method, path in routes]
    for method, path in routes:
        asked = re.sub(r"\{\w+(:path)?\}", "x", path)
        found = [one for verb, one, regex in known if verb == method and regex.match(asked)]
        assert found[0] == path
    paths = list(dict.fromkeys(path for _, path in routes if path != "/openapi.json"))
    session = "/apps/{app_name}/users/{user_id}/sessions/{session_id}"
    for path in ("/invocations", "/invocations/{invocation_id}/events", "/run", "/run_sse"):
        assert paths.index(path) < paths.index("/health")
    assert paths.index(f"{session}/events") < paths.index(session)


def test_no_route_runs_in_a_thread() -> None:
    """FastAPI calls functions that are no coroutines, and classes, in one of 40 threads."""

    def calls(dependant: Dependant) -> Iterator[Any]:
        yield dependant.call
        for one in dependant.dependencies:
            yield from calls(one)

    app = server(session_service=InMemorySessionService(), client=cast("Any", None))
    routes = [route.original_route for route in iter_route_contexts(app.routes)]
    found = {
        call for route in routes if isinstance(route, APIRoute) for call in calls(route.dependant)
    }
    assert len(found) > len(routes) / 2
    assert not [call for call in found if not inspect.iscoroutinefunction(call)]
