"""The SQLite session store when there is no more room for it (F18)."""

import json
import subprocess
import sys
from pathlib import Path

import durable_adk

FULL = """
import asyncio, json, pathlib, resource, sys
from durable_adk.errors import StoreUnavailableError
from tests.unit.sessions.test_full_disk import HALF, LARGE, commit, look, opened
from durable_adk.sessions import SqliteSessionService

def room(size):
    # A write beyond it fails, as it does where a disk or a quota is used up.
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main(path):
    service = SqliteSessionService(path)
    await opened(service)
    log = pathlib.Path(f"{path}-wal")
    room(log.stat().st_size + HALF)
    errors = []
    for attempt in range(2):
        try:
            await commit(service, "large", text=LARGE)
        except StoreUnavailableError as error:
            errors.append(str(error))
    between = await look(service)
    room(resource.RLIM_INFINITY)
    seq = await commit(service, "large", text=LARGE)
    again = await commit(service, "large", text=LARGE)
    print(json.dumps([errors, between, seq, again, await look(service)]))
    await service.close()

asyncio.run(main(sys.argv[1]))
"""


def test_a_write_that_the_system_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    """F18, I5, I11: in the middle of a transaction's log; the same process continues afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(durable_adk.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr
    errors, between, seq, again, after = json.loads(done.stdout)
    assert len(errors) == 2, errors
    assert between == [["user"], 1, []]
    assert (seq, again) == (2, 2)
    assert after == [["user", "large"], 2, ["text"]]
