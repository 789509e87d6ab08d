"""What a worker imports: its start costs processor time and memory on every host."""

import subprocess
import sys

NEEDLESS = (
    "alembic",  # for upgrades of tables
    "asyncpg",
    "cryptography",  # for encryption
    "durable_adk.cli",
    "durable_adk.ops",
    "durable_adk.server",
    "fastapi",
    "google.adk",
    "mcp",
    "obstore",  # for object stores
    "opentelemetry.sdk",
    "redis",
    "sqlalchemy.ext.asyncio",  # for PostgreSQL
    "sqlalchemy.orm",
    "starlette",
    "typer",
    "uvicorn",
)
PROGRAM = """
import sys
import durable_adk.agents, durable_adk.plugin, durable_adk.sessions, durable_adk.worker
print(*sys.modules)
"""


def test_a_worker_imports_nothing_that_it_does_not_use() -> None:
    """Each is imported where it is first used, if at all."""
    command = (sys.executable, "-c", PROGRAM)
    loaded = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert "durable_adk.worker" in loaded
    assert [name for name in NEEDLESS if name in loaded] == []
