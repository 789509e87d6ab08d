"""Which version a database's tables are of."""

import shlex
from dataclasses import dataclass

from durable_adk.errors import InvalidRequestError, SchemaOutdatedError


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """What is there, and what this code needs; versions count up."""

    found: str | None
    """None: there are no tables."""
    needed: str

    @property
    def empty(self) -> bool:
        """Whether nothing of ours is there."""
        return self.found is None

    @property
    def current(self) -> bool:
        """Whether nothing needs to be done."""
        return self.found == self.needed

    @property
    def newer(self) -> bool:
        """Whether this code does not know the tables."""
        return self.found is not None and self.found > self.needed

    def require_known(self) -> None:
        """Refuse tables of a later version.

        Raises:
            InvalidRequestError: They are.
        """
        if self.newer:
            raise InvalidRequestError(
                f"The database's tables are of version {self.found}, and this package knows those "
                f"up to {self.needed}; install the package that made them, or a newer one."
            )

    def require_current(self, store: str) -> None:
        """Refuse tables of any other version than this code's.

        Args:
            store: The database's URL, to be shown.

        Raises:
            SchemaOutdatedError: They are older.
            InvalidRequestError: They are newer.
        """
        self.require_known()
        if not self.current:
            raise SchemaOutdatedError(
                f"The database's tables are of version {self.found}, and this package needs "
                f"{self.needed}. Run: durable-adk db upgrade --store {shlex.quote(store)}"
            )
