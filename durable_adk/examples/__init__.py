"""Example conversations that are shown to a model."""

from durable_adk.examples.base_example_provider import BaseExampleProvider
from durable_adk.examples.example import Example

__all__ = ["BaseExampleProvider", "Example"]
