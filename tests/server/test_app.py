"""The server's routes, side by side."""

import re
from typing import Any, cast

from fastapi.routing import iter_route_contexts
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
