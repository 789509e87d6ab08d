"""Files that name a worker's running attempts, from which those of a dead process are failed."""

import asyncio
import os
import platform
import shutil
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from google.protobuf.message import DecodeError
from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RespondActivityTaskFailedRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.attempt_history import AttemptHistory
from durable_adk.errors import RunError
from durable_adk.log import get_logger
from durable_adk.storage.files import check_private, open_lock, private_folder, try_lock

LOOK = 0.25
"""Seconds between two looks for dead processes."""
KEPT = 2.0
"""Seconds for which a file outlives its attempt, whose result may not have reached the server."""
STALE = 86_400.0
"""Seconds after which files that no worker of their namespace has found are deleted."""
LOST: Final = "The worker's process has ended."
"""Message of the failure; nothing depends on it."""
_LOCK = "lock"
_RECONNECT = 5.0
_FINAL = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.PERMISSION_DENIED)
"""Replies after which a repeat is useless: the attempt has ended, or is another namespace's."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")

logger = get_logger(__name__)


class AttemptFiles:
    """Notes a worker's running attempts in files, and fails those of processes that have died.

    Each worker has a folder with a lock that the kernel releases when its process ends, and not
    earlier: so a worker that gets the lock knows that no code of the process runs any more, without
    process ids, which are reused. A child process that was forked without an exec keeps the lock,
    and then the missed heartbeats decide.

    A file holds a request to Temporal. Its task token names the attempt, so the server refuses it
    if that attempt has ended, whatever runs since. The failure can be retried and the worker has
    reported nothing, so the attempt counts as lost like one that missed its heartbeats.

    All processes of a user on one machine that share ``TMPDIR`` find each other's files.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._own: Path | None = None
        self._numbers = count()
        self._ended = deque[tuple[float, int]]()
        """When attempts ended, and the names of their files: in order, so that no timer is needed
        for each."""

    @contextmanager
    def noted(self) -> Generator[None]:
        """Note the current activity's attempt while the body runs, and a little longer."""
        own, info = self._own, activity.info()
        if own is None or info.is_local:
            yield
            return
        number = next(self._numbers)
        with suppress(OSError):  # the missed heartbeats reveal it, too
            _write(f"{own}/{number}", self._request(info).SerializeToString())
        try:
            yield
        finally:
            self._ended.append((time.monotonic(), number))

    def _request(self, info: activity.Info) -> RespondActivityTaskFailedRequest:
        history = AttemptHistory.of(info.heartbeat_details)
        details = history.signed(info.attempt, self._client.identity).details()
        return RespondActivityTaskFailedRequest(
            task_token=info.task_token,
            namespace=self._client.namespace,
            identity=self._client.identity,
            failure=Failure(
                message=LOST,
                source="durable_adk",
                application_failure_info=ApplicationFailureInfo(type=RunError.__name__),
            ),
            last_heartbeat_details=Payloads(payloads=[one.payload for one in details]),
        )

    async def run(self) -> None:
        """Allow `noted` to write, and look for dead processes, until cancelled."""
        try:
            folder = _folder(await self._namespace_id())
            with self._locked(folder) as self._own:
                while True:
                    for other in _others(folder, self._own):
                        await self._fail_all(other)
                    await asyncio.sleep(LOOK)
                    while self._ended and time.monotonic() - self._ended[0][0] > KEPT:
                        _delete(self._own / str(self._ended.popleft()[1]))
                    for one in (folder, self._own / _LOCK):
                        os.utime(one)  # temporary folders are cleaned of old files
        except OSError as error:
            # Nothing depends on it: the missed heartbeats reveal dead workers, too.
            logger.warning("attempts.not_noted", error_type=type(error).__name__)
        finally:
            self._own = None

    async def _namespace_id(self) -> str:
        """Return the namespace's id, which no other server has."""
        request = DescribeNamespaceRequest(namespace=self._client.namespace)
        while True:
            try:
                found = await self._client.workflow_service.describe_namespace(request)
            except RPCError as error:
                logger.debug("namespace.not_described", status=error.status.name)
                await asyncio.sleep(_RECONNECT)
            else:
                return found.namespace_info.id

    @contextmanager
    def _locked(self, folder: Path) -> Generator[Path]:
        new, own = folder / f".{uuid4().hex}", folder / uuid4().hex
        with open_lock(new / _LOCK) as lock:
            try_lock(lock, shared=False)
            new.rename(own)  # workers see it only when it is locked
            try:
                yield own
            finally:
                shutil.rmtree(own, ignore_errors=True)

    async def _fail_all(self, other: Path) -> None:
        """Fail the attempts of another worker whose process has ended."""
        try:
            lock = (other / _LOCK).open("rb+")
        except FileNotFoundError:
            return  # it has just left
        with lock:
            if not try_lock(lock, shared=False):
                return
            done = await asyncio.gather(*map(self._fail, _attempts(other)))
            if all(done):
                shutil.rmtree(other, ignore_errors=True)

    async def _fail(self, file: Path) -> bool:
        """Fail an attempt unless it has ended; return whether the server has replied."""
        try:
            request = _read(file)
            await self._client.workflow_service.respond_activity_task_failed(request)
            logger.info("attempt.lost", worker=request.identity)
        except DecodeError:
            pass  # its process ended before the attempt began
        except RPCError as error:
            if error.status not in _FINAL:
                return False
        _delete(file)
        return True


def _folder(namespace_id: str) -> Path:
    """Return the folder of a namespace's workers on this machine, since it was booted.

    Several machines may share a temporary folder, but only one kernel knows its locks for certain.
    """
    root = private_folder()
    root.mkdir(mode=0o700, exist_ok=True)
    check_private(root)
    for old in root.glob("attempts-*"):
        if time.time() - old.stat().st_mtime > STALE:
            shutil.rmtree(old, ignore_errors=True)
    boot = _BOOT.read_text().strip() if _BOOT.exists() else platform.node()
    folder = root / f"attempts-{boot}-{namespace_id}"
    folder.mkdir(exist_ok=True)
    return folder


def _others(folder: Path, own: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one != own and not one.name.startswith(".")]


def _attempts(other: Path) -> list[Path]:
    return [one for one in other.iterdir() if one.name != _LOCK]


def _read(file: Path) -> RespondActivityTaskFailedRequest:
    return RespondActivityTaskFailedRequest.FromString(file.read_bytes())


def _write(name: str, content: bytes) -> None:
    file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)  # a third of what a Path takes
    try:
        os.write(file, content)
    finally:
        os.close(file)


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)
