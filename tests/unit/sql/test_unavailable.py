"""A database that does not answer is distinguished from a mistake."""

import pytest
from asyncpg import exceptions

from durable_adk.errors import StoreUnavailableError
from durable_adk.sql.unavailable import translated

BREAKS = [
    exceptions.InterfaceError("connection is closed"),
    exceptions.InternalClientError("another operation is in progress"),
    exceptions.ConnectionDoesNotExistError("closed in the middle of operation"),
    exceptions.CannotConnectNowError("the database system is starting up"),
    exceptions.AdminShutdownError("terminating connection due to administrator command"),
    exceptions.SerializationError("could not serialize access due to concurrent update"),
    exceptions.DeadlockDetectedError("deadlock detected"),
    exceptions.LockNotAvailableError("canceling statement due to lock timeout"),
    exceptions.QueryCanceledError("canceling statement due to statement timeout"),
    exceptions.TooManyConnectionsError("sorry, too many clients already"),
    exceptions.InvalidPasswordError("somebody is just changing it"),
    exceptions.InvalidCatalogNameError("somebody is just putting it back"),
    ConnectionRefusedError("nobody listens"),
    TimeoutError("nobody answers"),
]
MISTAKES = [
    exceptions.ClientConfigurationError("no such option"),
    exceptions.UndefinedTableError("no such table"),
    ValueError("ours"),
]


@pytest.mark.parametrize("error", BREAKS, ids=lambda error: type(error).__name__)
def test_what_the_driver_says_of_a_broken_connection_is_tried_again(error: Exception) -> None:
    """D11: also as it is, because SQLAlchemy translates nothing while it sets a connection up."""
    with pytest.raises(StoreUnavailableError), translated():
        raise error


@pytest.mark.parametrize("error", MISTAKES, ids=lambda error: type(error).__name__)
def test_a_mistake_is_not_tried_again(error: Exception) -> None:
    """D11: it would be the same each time."""
    with pytest.raises(type(error)), translated():
        raise error
