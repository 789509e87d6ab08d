"""Version of a database's tables."""

import shlex
from dataclasses import dataclass

from durable_adk.errors import InvalidRequestError, SchemaOutdatedError


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The tables' version and the version that this package needs; versions increase."""

    found: str | None
    """None if there are no tables."""
    needed: str

    @property
    def empty(self) -> bool:
        """Whether the database has none of our tables."""
        return self.found is None

    @property
    def current(self) -> bool:
        """Whether the tables have the needed version."""
        return self.found == self.needed

    @property
    def newer(self) -> bool:
        """Whether the tables have a later version than this package knows."""
        return self.found is not None and self.found > self.needed

    def require_known(self) -> None:
        """Reject tables of a later version.

        Raises:
            InvalidRequestError: The tables have a later version.
        """
        if self.newer:
            raise InvalidRequestError(
                f"The database's tables are of version {self.found}, and this package knows those "
                f"up to {self.needed}; install the package that made them, or a newer one."
            )

    def require_current(self, store: str) -> None:
        """Reject tables of any other version.

        Args:
            store: The database's URL for the message, without secrets.

        Raises:
            SchemaOutdatedError: The tables have an older version.
            InvalidRequestError: The tables have a newer version.
        """
        self.require_known()
        if not self.current:
            raise SchemaOutdatedError(
                f"The database's tables are of version {self.found}, and this package needs "
                f"{self.needed}. Run: durable-adk db upgrade --store {shlex.quote(store)}"
            )
