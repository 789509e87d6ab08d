"""A worker in a process of its own, for the embedded server."""

import sys
from collections.abc import Mapping
from pathlib import Path

from durable_adk.embedded.process import Process
from durable_adk.embedded.shared import ENVIRONMENT, payloads_place

GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL: more than a worker's own graceful shutdown takes."""


async def start_worker_process(
    target: str,
    *,
    address: str,
    store: str,
    task_queue: str,
    data_dir: Path,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start ``durable-adk worker``; it ends when we do.

    Args:
        target: What it serves.
        address: The embedded server.
        store: The session store, an URL or an absolute path.
        task_queue: Where it listens.
        data_dir: Where it keeps artifacts, memory and credentials.
        log: File for its output.
        env: Variables on top of ours.
    """
    # -P: a module of the folder we are in must not stand in for one of Python's.
    command = [sys.executable, "-P", "-m", "durable_adk.cli", "worker", target]
    command += ["--address", address, "--store", store, "--task-queue", task_queue]
    command += ["--data-dir", str(data_dir)]
    ours = {**ENVIRONMENT, "DURABLE_ADK_PAYLOADS": str(payloads_place(data_dir))}
    return await Process.start(command, log=log, env={**ours, **(env or {})}, grace=GRACE)
