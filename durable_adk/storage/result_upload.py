"""Stores an activity's result in external storage before the activity ends."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    StorageDriver,
    StorageDriverStoreContext,
)
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from durable_adk.attempt_history import AttemptHistory
from durable_adk.errors import PayloadLostError, StoreUnavailableError, as_detail, class_name
from durable_adk.retrying import retrying
from durable_adk.storage.payload_driver import OwnedStorage

RESERVE = timedelta(seconds=5)
"""Time before the activity's timeout at which storing its result is given up."""
_PAUSE = 0.5
"""Seconds between attempts."""


class ResultUpload(Interceptor):
    """Stores a result that belongs in external storage while its activity is still running.

    The SDK stores it after the activity's code has returned. If the store is unavailable then, the
    activity fails and runs again, including its tool. With this interceptor the activity waits for
    the store and sends heartbeats; afterwards the SDK finds the blob already stored.

    With a custom codec that encrypts, the SDK's ciphertext differs from this one, and is stored
    separately; only an outage between the two is then harmful. `EncryptionCodec` produces the same
    ciphertext twice.
    """

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - the SDK's name
        """See base class."""
        return _UploadingInbound(next, self._converter)


class _UploadingInbound(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, converter: DataConverter) -> None:
        super().__init__(following)
        self._converter = converter

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - the SDK's name
        """Execute the activity, and store its result if it belongs in external storage.

        Raises:
            ApplicationError: The store was unavailable until the activity's timeout. Not retryable:
                the work is done, and repeating it would not help.
        """
        result = await super().execute_activity(input)
        if not activity.info().is_local:  # local activities have short timeouts and repeat safely
            await self._secure(result)
        return result

    async def _secure(self, result: Any) -> None:
        converter = self._converter.with_context(_context(activity.info()))
        storage = converter.external_storage
        assert isinstance(storage, OwnedStorage)  # noqa: S101 - the worker checks that
        payloads = converter.payload_converter.to_payloads([result])
        if converter.payload_codec is not None:
            payloads = await converter.payload_codec.encode(payloads)
        driver = storage.driver_for(payloads[0])
        if driver is not None:
            await _with_heartbeats(asyncio.ensure_future(_keep(driver, payloads[0])))


async def _with_heartbeats(work: asyncio.Future[None]) -> None:
    """Wait for the end of `work`, sending heartbeats."""
    beat = (activity.info().heartbeat_timeout or timedelta(seconds=4)).total_seconds() / 4
    # A heartbeat replaces the previous details, so they are sent again.
    history = AttemptHistory.of(activity.info().heartbeat_details)
    try:
        while not (await asyncio.wait({work}, timeout=beat))[0]:
            history.send()
    finally:
        work.cancel()
    await work


async def _keep(driver: StorageDriver, payload: Payload) -> None:
    store = retrying(driver.store, _seconds_left(activity.info()), pause=_PAUSE)
    try:
        await store(StorageDriverStoreContext(), [payload])
    except StoreUnavailableError as error:
        raise _deadline_exceeded(error) from error


def _deadline_exceeded(error: StoreUnavailableError) -> ApplicationError:
    lost = PayloadLostError(f"A step's result could not be stored: {error}")
    return ApplicationError(
        lost.message, as_detail(lost), type=class_name(lost), non_retryable=True
    )


def _seconds_left(info: activity.Info) -> float:
    limit = info.start_to_close_timeout or timedelta(minutes=10)
    return (info.started_time + limit - RESERVE - datetime.now(UTC)).total_seconds()


def _context(info: activity.Info) -> ActivitySerializationContext:
    return ActivitySerializationContext(
        namespace=info.namespace,
        activity_id=info.activity_id,
        activity_type=info.activity_type,
        activity_task_queue=info.task_queue,
        workflow_id=info.workflow_id,
        workflow_type=info.workflow_type,
        is_local=info.is_local,
    )
