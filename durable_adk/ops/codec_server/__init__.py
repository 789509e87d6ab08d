"""A codec server, which decrypts payloads for Temporal's UI and command line (D16)."""

from durable_adk.ops.codec_server.access import Access
from durable_adk.ops.codec_server.application import codec_application, serve
from durable_adk.ops.codec_server.decoding import Decoder

__all__ = ["Access", "Decoder", "codec_application", "serve"]
