"""Optional imports of `httpx` and `standardwebhooks`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from httpx import AsyncClient, ConnectError, HTTPError
    from standardwebhooks import Webhook
except ImportError:
    if TYPE_CHECKING:
        raise
    AsyncClient = ConnectError = HTTPError = Webhook = Absent

__all__ = ["AsyncClient", "ConnectError", "HTTPError", "Webhook"]
