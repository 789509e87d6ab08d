"""A version of the tables after the package's own, as a later release may have it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from durable_adk.sql import migrate

LATER = "0002"
MIGRATION = f'''"""One more column, whose default lets workers of the version before go on."""

import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{migrate.HEAD}"


def upgrade() -> None:
    """Add the column."""
    column = sa.Column("mood", sa.Text, nullable=False, server_default="calm")
    op.add_column("sessions", column)
'''


@contextmanager
def later_tables(folder: Path) -> Iterator[None]:
    """Have the package of this process need that version; its migrations are in `folder`."""
    copied = folder / "migrations"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", copied)
    (copied / "versions" / f"v{LATER}_mood.py").write_text(MIGRATION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "SCRIPTS", str(copied))
        patch.setattr(migrate, "HEAD", LATER)
        yield
