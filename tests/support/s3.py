"""The S3 server of `tests/stubs/s3_stub.py`, from the side of the tests."""

import json
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE

STUB = Path(__file__).parents[1] / "stubs" / "s3_stub.py"
BUCKET = "bucket"


class S3:
    """A running server with one bucket."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
        self._send("PUT", f"/{BUCKET}")

    def uri(self) -> str:
        """A place that nobody has used."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex}/deep"

    def arm(self, **fault: Any) -> None:
        """Say what is to go wrong; nothing by default. Requests are counted from here."""
        self._send("POST", "/_stub", json.dumps(fault).encode())

    def _send(self, method: str, path: str, data: bytes = b"") -> None:
        request = urllib.request.Request(self.endpoint + path, method=method, data=data)  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE):  # noqa: S310
            pass


@contextmanager
def running() -> Iterator[S3]:
    """A server in a process of its own, which ends with ours."""
    process = subprocess.Popen(
        [sys.executable, str(STUB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout
        yield S3(int(process.stdout.readline()))
        assert process.stdin
        process.stdin.close()
