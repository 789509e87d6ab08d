"""Connecting to Temporal."""

import asyncio
from typing import Any

from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.service import KeepAliveConfig

from durable_adk.converter import data_converter, stored_in
from durable_adk.errors import TemporalUnavailableError
from durable_adk.object_store import place
from durable_adk.settings import Settings

KEEP_ALIVE = KeepAliveConfig(interval_millis=5_000, timeout_millis=3_000)
"""A silently dead connection is noticed in 20 s instead of 54 (reliability 1b)."""


def converter_of(settings: Settings) -> DataConverter:
    """How values are written for a Temporal of one's own, as the settings say (D16); may block."""
    if settings.payloads is None:
        return data_converter
    return stored_in(place(settings.payloads), threshold=settings.payload_threshold)


async def connect(address: str | None = None, **options: Any) -> Client:
    """Connect to Temporal as the SDK's environment configuration says (design D18).

    That is ``TEMPORAL_ADDRESS``, ``TEMPORAL_NAMESPACE``, ``TEMPORAL_PROFILE``, TLS and API keys;
    see Temporal's documentation of environment configuration. Where large payloads are kept is in
    `Settings.payloads`; clients and workers must say the same.

    Args:
        address: ``host:port``; overrides the environment's.
        **options: Passed on to `temporalio.client.Client.connect`.

    Raises:
        TemporalUnavailableError: Nobody answers there.
        InvalidRequestError: The place of the payloads cannot be used.
        StoreUnavailableError: It does not answer.
    """
    settings: dict[str, Any] = dict(ClientConfig.load_client_connect_config())
    converter = await asyncio.to_thread(converter_of, Settings())
    settings |= {"data_converter": converter, "keep_alive_config": KEEP_ALIVE}
    settings |= options
    if address:
        settings["target_host"] = address
    settings.setdefault("target_host", "localhost:7233")
    try:
        return await Client.connect(**settings)
    except RuntimeError as error:  # what the SDK raises when the first connection fails
        raise TemporalUnavailableError(
            f"Temporal does not answer at {settings['target_host']}: {error}. Start one with "
            "`durable-adk dev`, or set TEMPORAL_ADDRESS (or --address) to where it runs."
        ) from error
