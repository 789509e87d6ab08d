"""Connects to Temporal."""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, TypeVar

from temporalio.api.workflowservice.v1 import GetClusterInfoRequest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import KeepAliveConfig, RPCError, RPCStatusCode

from durable_adk.encryption import EncryptionCodec, KeyFile
from durable_adk.errors import InvalidRequestError, TemporalUnavailableError
from durable_adk.settings import Settings
from durable_adk.storage.location import resolved
from durable_adk.wire.converter import data_converter, encrypted, stored_in

KEEP_ALIVE = KeepAliveConfig(interval_millis=5_000, timeout_millis=3_000)
"""A silently dead connection is detected in 20 s instead of 54."""
_SECURED = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)
_HERE = ("127.", "localhost:", "[::1]:", "unix:")

T = TypeVar("T")


def converter_of(settings: Settings) -> DataConverter:
    """Return the configured data converter for an external Temporal (D16); may block.

    Raises:
        InvalidRequestError: The key file or the payload storage cannot be used, or its extra is not
            installed.
        StoreUnavailableError: The payload storage does not respond.
    """
    converter = data_converter
    if settings.payloads is not None:
        converter = stored_in(resolved(settings.payloads), threshold=settings.payload_threshold)
    if settings.encryption_keys is None:
        return converter
    keys = KeyFile(settings.encryption_keys)
    accepts = settings.encryption_accepts_plain
    return encrypted(converter, EncryptionCodec(keys=keys, accepts_plain=accepts))


async def connect(address: str | None = None, **options: Any) -> Client:
    """Connect to Temporal, using the SDK's environment configuration (D18).

    That is ``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, ``TEMPORAL_PROFILE``, TLS and API keys;
    see Temporal's documentation of environment configuration. `Settings.payloads` is the storage of
    large payloads, `Settings.encryption_keys` the keys that encrypt all payloads; clients and
    workers need the same ones.

    Args:
        address: ``host:port``; overrides the environment's.
        **options: Passed on to `temporalio.client.Client.connect`.

    Raises:
        TemporalUnavailableError: No server responds at the address.
        InvalidRequestError: The environment configuration, the key file or the payload storage
            cannot be used.
        StoreUnavailableError: The payload storage does not respond.
    """
    settings = _environment()
    converter = await asyncio.to_thread(converter_of, Settings())
    settings |= {"data_converter": converter, "keep_alive_config": KEEP_ALIVE}
    settings |= options
    if address:
        settings["target_host"] = address
    settings.setdefault("target_host", "localhost:7233")
    try:
        return await Client.connect(**settings)
    except RuntimeError as error:  # raised by the SDK if the first connection fails
        raise TemporalUnavailableError(
            f"Temporal does not answer at {settings['target_host']}: {reason_of(error)}. Start "
            "one with `durable-adk dev`, or set TEMPORAL_ADDRESS (or --address) to where it runs."
        ) from error


def reason_of(error: Exception) -> str:
    """Return the reason of a failed connection, from the text of the SDK's Rust core.

    The text is a chain of errors in Rust's format; the innermost message is the reason.
    """
    text = str(error)
    found = re.findall(r'(?:message|error): "([^"]+)"', text) or re.findall(r'"([^"]+)"', text)
    if found:
        return str(found[-1]).partition("failed to lookup address information: ")[2] or found[-1]
    return text.partition("tonic::")[0].strip(" :(") or "the connection failed"


def configured_address() -> str | None:
    """Return the address in the environment configuration; None if it has none.

    Raises:
        InvalidRequestError: The configuration cannot be read, or lacks the profile.
    """
    return _environment().get("target_host")


def _environment() -> dict[str, Any]:
    try:
        return dict(ClientConfig.load_client_connect_config())
    except RuntimeError as error:  # a class that the SDK does not export
        raise InvalidRequestError(
            f"Temporal's environment configuration cannot be used: {error}. Check "
            "TEMPORAL_PROFILE and TEMPORAL_CONFIG_FILE."
        ) from error


async def if_exists(call: Awaitable[T]) -> T | None:
    """Return the result of a call about a named Temporal object; None if the object does not exist.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    try:
        return await call
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error


async def reached(call: Awaitable[None]) -> bool:
    """Await a signal or another request; return False if its workflow is closed or missing.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """

    async def done() -> bool:
        await call
        return True

    return await if_exists(done()) is True


def is_local(target: str) -> bool:
    """Return whether an address is only reachable from this machine."""
    return target.startswith(_HERE)


async def refuse_development_server(client: Client) -> None:
    """Raise InvalidRequestError for a development server on another machine (S26).

    Such a server has no authentication. ``durable-adk worker`` makes this check unless it runs with
    --dev. `worker` and the plugin do not: a program that passes a client has chosen its server.

    Raises:
        InvalidRequestError: It is a development server on another machine.
        TemporalUnavailableError: The server does not respond.
    """
    target = client.service_client.config.target_host
    if is_local(target):
        return
    try:
        cluster = await client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    except RPCError as error:
        if error.status in _SECURED:
            return  # it has authentication, and this client may only use its namespace
        raise TemporalUnavailableError(
            f"Temporal does not answer at {target}: {error.message}"
        ) from error
    if cluster.persistence_store == "sqlite":
        raise InvalidRequestError(
            f"The Temporal at {target} is a development server, which has no authentication. "
            "Use a production server, or add --dev to accept it."
        )
