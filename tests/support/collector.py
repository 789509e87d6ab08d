"""An OTLP/HTTP endpoint on loopback that keeps what it is sent."""

import gzip
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Collector:
    """What has arrived so far."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    headers: list[str | None] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Of the spans, in the order of their arrival."""
        return [span.name for span in self.spans]

    def take(self, path: str, body: bytes) -> None:
        """Read one request."""
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self._serve(resource.resource.attributes)
                for scope in resource.scope_spans:
                    self.spans += scope.spans
        elif path == "/v1/metrics":
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self._serve(resource.resource.attributes)
                for scope in resource.scope_metrics:
                    self.metrics |= {metric.name for metric in scope.metrics}

    def _serve(self, attributes: object) -> None:
        for item in attributes:
            if item.key == "service.name":
                self.services.add(item.value.string_value)


_DECODERS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


@contextmanager
def collecting() -> Generator[Collector]:
    """A collector that listens while the body runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            decode = _DECODERS.get(self.headers.get("Content-Encoding", ""), bytes)
            collector.headers.append(self.headers.get("X-Team"))
            collector.take(self.path, decode(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield collector
        server.shutdown()
        thread.join()
