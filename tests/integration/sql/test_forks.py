"""A store that is used on both sides of a fork."""

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE

SCRIPT = """
import asyncio, os, sys, warnings
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions import DatabaseSessionService, SessionKey, SqliteSessionService

warnings.simplefilter("ignore", DeprecationWarning)  # of fork, in a process with threads
kind = {"sqlite": SqliteSessionService, "postgres": DatabaseSessionService}[sys.argv[1]]
made, fresh = kind(sys.argv[2]), kind(sys.argv[2])

async def use(store):
    await store.create_session(app_name="app", user_id="u")
    return "made"

print(asyncio.run(use(made)), flush=True)
pid = os.fork()
if pid == 0:
    try:
        asyncio.run(use(made))
    except InvalidRequestError as error:
        print(error, flush=True)
    print(asyncio.run(use(fresh)), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(asyncio.run(use(made)))
"""


def lines(kind: str, place: object) -> list[str]:
    """What the parent, the child and the parent again print."""
    command = [sys.executable, "-c", SCRIPT, kind, str(place)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(printed: list[str]) -> None:
    """The child gets an error with the remedy. It may make its own store; the parent continues."""
    first, told, *rest = printed
    assert (first, rest) == ("made", ["made", "made"])
    assert "was in use when this process was forked" in told
    assert "after the fork" in told


def test_a_fork_is_told_that_the_file_is_not_its_own(tmp_path: Path) -> None:
    """Nothing hangs: the threads that would do the work are the parent's."""
    check(lines("sqlite", tmp_path / "s.db"))


async def test_a_fork_is_told_that_the_database_is_not_its_own(postgres_url: str) -> None:
    """The same of PostgreSQL."""
    check(lines("postgres", postgres_url))
