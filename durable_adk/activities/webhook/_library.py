"""Optional imports of `httpx` and `standardwebhooks`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from httpx import URL, AsyncClient, ConnectError, HTTPError
    from standardwebhooks import Webhook
except ImportError:
    if TYPE_CHECKING:
        raise
    URL = AsyncClient = ConnectError = HTTPError = Webhook = Absent

__all__ = ["URL", "AsyncClient", "ConnectError", "HTTPError", "Webhook"]
