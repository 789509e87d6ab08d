"""The Agent Development Kit runtime as durable execution on Temporal."""

__version__ = "0.1.0"
