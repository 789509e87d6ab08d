"""The worker process of `dev`: loads all agents, reports them, and serves them.

Its output is mostly the output of the users' code. The process's own messages are lines of JSON
after a RECORD character, so that `dev` can tell them apart, even after an unfinished line.
"""

import json
import logging
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from durable_adk.apps.app import App
from durable_adk.apps.app_declaration import described
from durable_adk.cli.commands.exit import leave
from durable_adk.cli.execution import FAILED, ending_a_frozen_process, execute, until_cancelled
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.cli.target import loaded_files
from durable_adk.cli.worker import worker_options
from durable_adk.embedded.shared import connect_embedded, payload_storage
from durable_adk.errors import AgentDefinitionError, DurableAdkError
from durable_adk.log import get_logger
from durable_adk.ops.app_check import app_parts
from durable_adk.telemetry import steps
from durable_adk.wire.manifest import AgentNode
from durable_adk.worker import worker

logger = get_logger("durable_adk.cli.dev.worker")  # the module runs as `__main__`
RECORD = "\x1e"
"""The first character of a record: RFC 7464's separator, which texts do not contain."""
LOADED = "apps.loaded"
NOT_LOADED = "apps.not_loaded"


class Serving(BaseModel):
    """The process's task, its only argument."""

    targets: list[str]
    address: str
    """Address of the embedded server."""
    store: str
    task_queue: str | None
    data_dir: Path


def main() -> None:
    """Serve until SIGTERM."""
    serving = Serving.model_validate_json(sys.argv[1])
    try:
        execute(_serve, {}, {"serving": serving}, debug=False, log_level="info", stopped=0)
    except typer.Exit as ended:
        leave(ended.exit_code)


class _RecordFormatter(logging.Formatter):
    """Marks log lines as records."""

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        return f"{RECORD}{self._inner.format(record)}"


async def _serve(serving: Serving) -> int | None:
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_RecordFormatter(handler.formatter))
    logging.getLogger(steps.__name__).setLevel(logging.DEBUG)
    connection = ServerConnection(
        store=serving.store, task_queue=serving.task_queue, data_dir=serving.data_dir
    )
    try:
        apps = _load(serving.targets)
    except DurableAdkError as error:
        _record(NOT_LOADED, error_type=error.error_type, message=error.message)
        return FAILED
    named = {app.name: target for app, target in zip(apps, serving.targets, strict=True)}
    agents = [name for app in apps for name in _names(app.manifest())]
    descriptions = [described(app).to_value() for app in apps]
    _record(LOADED, apps=named, agents=agents, files=loaded_files(), described=descriptions)
    _warn(apps)
    settings = connection.settings
    async with connection.stores() as stores, AsyncExitStack() as workers:
        client = await connect_embedded(serving.address, payload_storage(serving.data_dir))
        with ending_a_frozen_process(settings.limits.blocked_timeout):
            for queue in dict.fromkeys(connection.queue(app.name) for app in apps):
                served = [app for app in apps if connection.queue(app.name) == queue]
                options = worker_options(settings, queue)
                running = worker(client, apps=served, options=options, **stores.arguments())
                await workers.enter_async_context(running)
            await until_cancelled()
    return None


def _load(targets: Sequence[str]) -> list[App]:
    apps: dict[str, tuple[str, App]] = {}
    for target in targets:
        app = load_app(target)
        other, _ = apps.setdefault(app.name, (target, app))
        if other != target:
            raise AgentDefinitionError(
                f"{target}: its app is called {app.name!r}, as that of {other}; rename one of the "
                "folders, or give it an `app = App(name=...)` of another name."
            )
    return [app for _, app in apps.values()]


def _warn(apps: Sequence[App]) -> None:
    """Log the findings of `durable-adk check`, which would otherwise be errors of a later step."""
    for app in apps:
        for part in app_parts(app):
            for finding in part.findings:
                logger.warning("app.finding", agent=part.agent, part=part.kind, finding=finding)


def _names(root: AgentNode) -> list[str]:
    """Return the names of the authors of an app's events."""
    nodes = [node.name for node in root.graph.nodes] if root.graph else []
    below = [name for child in root.children for name in _names(child)]
    return list(dict.fromkeys([root.name, *nodes, *below]))


def _record(event: str, **values: Any) -> None:
    sys.stderr.write(f"{RECORD}{json.dumps({'event': event, **values})}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
