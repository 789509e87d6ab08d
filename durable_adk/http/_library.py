"""Optional imports of `h11`, `starlette` and `uvicorn`."""

from typing import TYPE_CHECKING

from durable_adk.extras import Absent

try:
    from h11 import SERVER, Connection, Data, RemoteProtocolError, Request as RequestHead
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Config, Server
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    if TYPE_CHECKING:
        raise
    Server = Config = H11Protocol = Connection = SERVER = Absent
    Data = RemoteProtocolError = RequestHead = Absent
    ASGIApp = Message = Receive = Scope = Send = Absent

__all__ = [
    "SERVER",
    "ASGIApp",
    "Config",
    "Connection",
    "Data",
    "H11Protocol",
    "Message",
    "Receive",
    "RemoteProtocolError",
    "RequestHead",
    "Scope",
    "Send",
    "Server",
]
