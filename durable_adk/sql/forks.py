"""Detects use of a store in a forked process, which lacks the store's threads."""

import os

from durable_adk.errors import InvalidRequestError


class FirstUse:
    """Records the first process that uses a store; work submitted from a fork would hang."""

    def __init__(self) -> None:
        self._pid: int | None = None

    def check(self, store: str) -> None:
        """Record the first use, and reject use in another process.

        Args:
            store: The store's name in the error message.

        Raises:
            InvalidRequestError: Another process used the store first.
        """
        self._pid = self._pid or os.getpid()
        if self._pid != os.getpid():
            raise InvalidRequestError(
                f"The store {store} was in use when this process was forked. Make the service "
                "(and Temporal's client) after the fork, in each process: with gunicorn, without "
                "`--preload` or in `post_fork`."
            )
