"""A real S3 server over HTTP, which fails on request: ``s3_stub.py`` prints its port.

It is moto, whose conditional puts look first and write then; here no other comes in between, as in
S3 itself. It ends with its standard input. ``POST /_stub`` says in JSON what is to go wrong:

* ``down``: nothing is answered but 503.
* ``ignores_conditions``: what is to be created overwrites what is there.
* ``loses_an_answer``: the next conditional put is carried out, and answered with 503.
* ``kill_at`` and ``pid``: the process is killed when so many requests have been carried out.
"""

import json
import os
import signal
import sys
import threading
from contextlib import nullcontext
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

CONDITION = "HTTP_IF_NONE_MATCH"
UNAVAILABLE = "503 Slow Down"


class Stub:
    """The application between the network and moto."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._creating = threading.Lock()
        self._fault: dict[str, Any] = {}
        self._seen = 0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/_stub":
            self._fault, self._seen = json.loads(body_of(environ)), 0
            return answered(start_response, "200 OK")
        if self._fault.get("down"):
            body_of(environ)
            return answered(start_response, UNAVAILABLE)
        if self._fault.get("ignores_conditions"):
            environ.pop(CONDITION, None)
        conditional = CONDITION in environ
        with self._creating if conditional else nullcontext():
            loses = conditional and self._fault.pop("loses_an_answer", False)
            answer = list(self._moto(environ, losing(start_response) if loses else start_response))
        self._count()
        return answer

    def _count(self) -> None:
        self._seen += 1
        if self._fault.get("kill_at") == self._seen:
            os.kill(self._fault["pid"], signal.SIGKILL)


def body_of(environ: dict[str, Any]) -> bytes:
    """The request's body, which has to be read before the next request."""
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def answered(start_response: Any, status: str) -> list[bytes]:
    start_response(status, [("Content-Length", "0")])
    return []


def losing(start_response: Any) -> Any:
    """Says that the request has failed, whatever it has done."""
    return lambda _, *rest: start_response(UNAVAILABLE, *rest)


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_request(self, *args: Any, **kwargs: Any) -> None:
        pass


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, Stub(), threaded=True, request_handler=Quiet)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)
