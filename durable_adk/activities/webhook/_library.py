"""Optional imports of `httpx` and `standardwebhooks`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from httpx import AsyncClient, HTTPError
    from standardwebhooks import Webhook
except ImportError:
    if TYPE_CHECKING:
        raise
    AsyncClient = HTTPError = Webhook = Absent

__all__ = ["AsyncClient", "HTTPError", "Webhook"]
