"""A receiver of webhooks over HTTP, as somebody else would write it."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of these tests


@dataclass
class Receiver:
    """What has arrived, verified with the library of the specification."""

    port: int
    signed: bool = True
    """Whether only what is signed with `SECRET` is taken."""
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Messages that were accepted, in order, each with its id as `webhookId`."""
    ids: list[str] = field(default_factory=list[str])
    """Ids of all messages, also of those that were not accepted."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Their headers, by names in lower case."""
    responses: list[tuple[int, dict[str, str]]] = field(
        default_factory=list[tuple[int, dict[str, str]]]
    )
    """Statuses and headers of the next responses; then 204."""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook?token=of-the-receiver"

    def take(self, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        """Verify a message, and say how to respond."""
        message = Webhook(SECRET).verify(body, headers) if self.signed else json.loads(body)
        self.headers.append({key.lower(): text for key, text in headers.items()})
        name = self.headers[-1]["webhook-id"]
        self.ids.append(name)
        if self.responses:
            return self.responses.pop(0)
        self.received.append({**message, "webhookId": name})
        return 204, {}


@contextmanager
def receiving(port: int = 0, *, signed: bool = True) -> Generator[Receiver]:
    """Receive while the context is open."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers = receiver.take(body, dict(self.headers))
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver = Receiver(server.server_port, signed)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
