"""What Alembic runs to migrate: everything on the caller's connection, in its transaction."""

from alembic import context

from durable_adk.sessions.sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table="durable_adk_version",
)
context.run_migrations()
