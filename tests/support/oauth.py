"""A provider of OAuth2's tokens on this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs


class TokenProvider(HTTPServer):
    """Gives a token for the code 42."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[tuple[dict[str, str], str | None]] = []
        self.elsewhere: str | None = None
        """Where it sends who asks."""

    @property
    def url(self) -> str:
        """Its endpoint for tokens."""
        return f"http://127.0.0.1:{self.server_port}/token"


class Answer(BaseHTTPRequestHandler):
    """An answer of a provider."""

    server: TokenProvider

    def do_POST(self) -> None:
        """Note what is asked, and answer."""
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: value for name, [value] in parse_qs(text).items()}
        self.server.asked.append((form, self.headers["Authorization"]))
        status = 302 if self.server.elsewhere else 200 if form.get("code") == "42" else 400
        self.send_response(status)
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()
        token = {"access_token": "t", "refresh_token": "r", "expires_in": "60"}
        self.wfile.write(json.dumps(token if status == 200 else {"error": "no"}).encode())

    do_GET = do_POST  # noqa: N815  # the base class's

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's
        """Log nothing."""


@contextmanager
def token_provider() -> Iterator[TokenProvider]:
    """One that runs meanwhile."""
    server = TokenProvider()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
