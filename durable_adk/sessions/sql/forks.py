"""Stores have threads, and a forked process has none of its parent's."""

import os

from durable_adk.errors import InvalidRequestError


class FirstUse:
    """The process that used a store first; work given to its threads from a fork would hang."""

    def __init__(self) -> None:
        self._pid: int | None = None

    def check(self, store: str) -> None:
        """Note the first use.

        Args:
            store: What the message calls it.

        Raises:
            InvalidRequestError: This is another process.
        """
        self._pid = self._pid or os.getpid()
        if self._pid != os.getpid():
            raise InvalidRequestError(
                f"The store {store} was in use when this process was forked. Make the service "
                "(and Temporal's client) after the fork, in each process: with gunicorn, without "
                "`--preload` or in `post_fork`."
            )
