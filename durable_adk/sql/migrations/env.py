"""Alembic's entry point: migrates on the caller's connection, in the caller's transaction."""

from alembic import context

from durable_adk.sql.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table="durable_adk_version",
)
context.run_migrations()
