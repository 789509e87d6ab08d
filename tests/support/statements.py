"""The statements that a session store runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from durable_adk.sessions.sql.connections import AlchemyConnection, SqliteConnection


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that run meanwhile, on any store."""
    found = list[str]()

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(connection: Any, statement: Any, values: Any) -> Any:
            found.append(str(statement))
            return run(connection, statement, values)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for kind in (AlchemyConnection, SqliteConnection):
            for name in ("rows", "change"):
                patch.setattr(kind, name, noting(getattr(kind, name)))
        yield found
