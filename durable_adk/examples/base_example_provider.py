"""The interface of stores of examples."""

from abc import ABC, abstractmethod

from durable_adk.examples.example import Example


class BaseExampleProvider(ABC):
    """Finds the examples that match a query."""

    @abstractmethod
    def get_examples(self, query: str) -> list[Example]:
        """Return the examples for a user's message; runs in a thread, so it may block."""
