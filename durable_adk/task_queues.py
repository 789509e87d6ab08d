"""Task queues of Temporal, and which of them a worker of this process polls.

In an eager start, Temporal hands the first task to a worker on the client's own connection and
bypasses the task queue. It ignores versions then: a build would run before an operator makes it
current, or after another one became current. So only workers without Worker Versioning get eager
starts, and only while new workflows are not routed to a version.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client
from temporalio.service import RPCError, ServiceClient
from temporalio.worker import Worker, WorkerDeploymentConfig

KNOWN_FOR = 5.0
"""Seconds for which a task queue's routing of new workflows is cached."""
_START_WAITS = 0.5
"""Maximum seconds by which reading the routing delays a start; after that, it is not eager."""
_TIMEOUT = timedelta(seconds=5)


@dataclass
class _Polled:
    """A task queue that workers of this process poll."""

    workers: int = 0
    versioned: int = 0
    routes: bool = True
    """Whether new workflows may be routed to a version, by the last reading; True while unknown."""
    read_at: float = -KNOWN_FOR


_Key = tuple[ServiceClient, str, str]
_polled: dict[_Key, _Polled] = {}
"""Keyed by connection, namespace and task queue."""


@contextmanager
def polled_by(worker: Worker) -> Generator[None]:
    """Record that a worker of this process polls its task queue while the block runs."""
    key = _key(worker.client, worker.task_queue)
    here = _polled.setdefault(key, _Polled())
    versioned = _is_versioned(worker)
    here.workers += 1
    here.versioned += versioned
    try:
        yield
    finally:
        here.workers -= 1
        here.versioned -= versioned
        if not here.workers:
            _polled.pop(key, None)


async def starts_here(client: Client, task_queue: str) -> bool:
    """Return whether to start eagerly: any worker may run the task, and one of this process can."""
    here = _polled.get(_key(client, task_queue))
    if here is None or here.versioned:
        return False
    if time.monotonic() - here.read_at > KNOWN_FOR:
        # Concurrent starts neither read it again nor wait: until the reading ends they are not
        # eager.
        here.routes, here.read_at = True, time.monotonic()
        with suppress(RPCError, TimeoutError):
            async with asyncio.timeout(_START_WAITS):
                found = await described(client, task_queue)
                here.routes = _routes(found.versioning_info)
    return not here.routes


async def described(client: Client, task_queue: str) -> DescribeTaskQueueResponse:
    """Return Temporal's description of a task queue's workflow pollers.

    Raises:
        RPCError: The request failed.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    return await client.workflow_service.describe_task_queue(request, timeout=_TIMEOUT)


def _key(client: Client, task_queue: str) -> _Key:
    return client.service_client, client.namespace, task_queue


def _is_versioned(worker: Worker) -> bool:
    match worker.config(active_config=True):
        case {"deployment_config": WorkerDeploymentConfig(use_worker_versioning=True)}:
            return True
        case {"use_worker_versioning": versioned}:
            return versioned
        case _:
            return False


def _routes(routing: TaskQueueVersioningInfo) -> bool:
    ramping = routing.ramping_version_percentage > 0
    return bool(routing.current_deployment_version.build_id or ramping)
