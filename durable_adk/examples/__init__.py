"""Examples of conversations that a model is shown."""

from durable_adk.examples.base_example_provider import BaseExampleProvider
from durable_adk.examples.example import Example

__all__ = ["BaseExampleProvider", "Example"]
