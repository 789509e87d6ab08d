"""``durable-adk worker``: run a worker on an existing Temporal."""

from durable_adk.cli.execution import ending_a_frozen_process, until_cancelled
from durable_adk.cli.server import ServerConnection, load_app
from durable_adk.client.connect import connect, refuse_development_server
from durable_adk.settings import Settings
from durable_adk.worker import Versioning, WorkerOptions, worker as run_worker


async def worker(
    connection: ServerConnection,
    targets: list[str],
    *,
    build_id: str | None,
    auto_upgrade: bool,
    dev: bool,
) -> None:
    """Run a worker for TARGETS on an existing Temporal, until Ctrl-C or SIGTERM."""
    settings = connection.settings
    task_queue = connection.task_queue or settings.task_queue
    versioning = Versioning.parse(
        settings, task_queue=task_queue, build_id=build_id, auto_upgrade=auto_upgrade
    )
    options = worker_options(settings, task_queue, versioning=versioning)
    apps = [load_app(target) for target in targets]
    async with connection.stores() as stores:
        client = await connect(connection.address)
        if not dev:
            await refuse_development_server(client)
        with ending_a_frozen_process(settings.limits.blocked_timeout):
            async with run_worker(client, apps=apps, options=options, **stores.arguments()):
                await until_cancelled()


def worker_options(
    settings: Settings, task_queue: str, *, versioning: Versioning | None = None
) -> WorkerOptions:
    """Return the options of a worker process, from its settings."""
    return WorkerOptions(
        task_queue=task_queue,
        limits=settings.limits,
        versioning=versioning,
        model_task_queues=settings.model_task_queues,
        max_task_queue_activities_per_second=settings.max_task_queue_activities_per_second,
        webhooks=settings.webhooks_of_worker(),
    )
