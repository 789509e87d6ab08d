"""The port to a store of examples."""

from abc import ABC, abstractmethod

from durable_adk.examples.example import Example


class BaseExampleProvider(ABC):
    """Finds the examples that suit a query."""

    @abstractmethod
    def get_examples(self, query: str) -> list[Example]:
        """The examples for what a user says; it runs in a thread, so it may block."""
