"""``durable-adk worker``: runs apps for an existing Temporal."""

from typing import Annotated

import typer

from durable_adk.cli.execution import ending_a_frozen_process, execute, until_cancelled
from durable_adk.cli.options import (
    Address,
    AutoUpgrade,
    BuildId,
    DataDir,
    Debug,
    Store,
    Targets,
    TaskQueue,
)
from durable_adk.cli.places import Places, load_app
from durable_adk.client.connect import connect, refuse_development_server
from durable_adk.log import configure
from durable_adk.worker import Versioning, WorkerOptions, worker

Dev = Annotated[bool, typer.Option("--dev", help="Accept a development server on another machine.")]


def worker_command(
    targets: Targets,
    *,
    address: Address = None,
    store: Store = None,
    task_queue: TaskQueue = None,
    data_dir: DataDir = None,
    build_id: BuildId = None,
    auto_upgrade: AutoUpgrade = False,
    dev: Dev = False,
    debug: Debug = False,
) -> None:
    """Serve TARGETS to an existing Temporal, until Ctrl-C or SIGTERM.

    Where Temporal is: --address, else the environment configuration of Temporal's SDKs
    (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_PROFILE, TLS, API key).

    [bold]Example[/bold]

      durable-adk worker my_agent other_agent --store shared/sessions.db
      durable-adk worker my_agent --build-id $(git rev-parse --short HEAD)
    """
    configure("info")
    places = Places(address=address, store=store, task_queue=task_queue, data_dir=data_dir)
    serving = _serve(targets, places, build_id=build_id, auto_upgrade=auto_upgrade, dev=dev)
    execute(serving, debug=debug, stopped=0)


async def _serve(
    targets: list[str], places: Places, *, build_id: str | None, auto_upgrade: bool, dev: bool
) -> None:
    settings = places.settings
    task_queue = places.task_queue or settings.task_queue
    versioning = Versioning.parse(
        settings, task_queue=task_queue, build_id=build_id, auto_upgrade=auto_upgrade
    )
    options = WorkerOptions(
        task_queue=task_queue,
        limits=settings.limits,
        versioning=versioning,
        model_task_queues=settings.model_task_queues,
        max_task_queue_activities_per_second=settings.max_task_queue_activities_per_second,
    )
    apps = [load_app(target) for target in targets]
    async with places.stores() as stores:
        client = await connect(places.address)
        if not dev:
            await refuse_development_server(client)
        with ending_a_frozen_process(settings.limits.blocked_timeout):
            async with worker(client, apps=apps, options=options, **stores.arguments()):
                await until_cancelled()
