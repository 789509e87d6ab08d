"""``durable-adk health``, as a container's probe asks it."""

import asyncio
import json
import signal
from collections.abc import Iterator

import pytest

from durable_adk.embedded import TemporalServer
from tests.support.commands import EXAMPLE, Terminal
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def health(terminal, *options):
    """The exit code, and what it said of each part."""
    done = terminal.run("health", *options)
    assert done.stderr == ""
    lines = [line.split(": ", 1)[0].split(maxsplit=1) for line in done.stdout.splitlines()]
    return done.returncode, {name: mark for mark, name in lines}


def test_it_is_well_exactly_when_a_worker_polls(terminal, server):
    """D13: a probe sees the worker come, and tells it from those of other queues."""
    options = ["--address", server.address, "--store", "s.db", "--task-queue", terminal.folder.name]
    assert health(terminal, *options) == (
        1,
        {"session store": "ok", "Temporal": "ok", "worker": "failed"},
    )
    worker = terminal.start("worker", EXAMPLE, *options)
    until_true(lambda: health(terminal, "--here", *options)[0] == 0)
    code, parts = health(terminal, "--here", *options[:-1], "another-queue")
    assert (code, parts["session store"], parts["worker"]) == (1, "ok", "failed")
    terminal.stop(worker, signal.SIGTERM)


def test_workers_that_take_no_new_invocation_are_not_ok(terminal, server):
    """Until their version is current. A probe of one of them, which may wait for that, is well."""
    queue = terminal.folder.name
    options = ["--address", server.address, "--store", "s.db", "--task-queue", queue]
    versioned = {"DURABLE_ADK_DEPLOYMENT": queue, "DURABLE_ADK_BUILD_ID": "b1"}
    worker = terminal.start("worker", EXAMPLE, *options, **versioned)
    until_true(lambda: health(terminal, "--here", *options)[0] == 0)
    done = terminal.run("health", *options)
    assert done.returncode == 1
    assert f"set-current-version --deployment-name {queue} --build-id b1" in done.stdout
    terminal.stop(worker, signal.SIGTERM)


def test_the_server_of_the_folder_is_found(terminal):
    """Commands without --address use the server and the workers of `dev` in the same folder."""
    dev = terminal.start("dev", EXAMPLE)
    until_true(lambda: health(terminal)[0] == 0)
    done = terminal.run("search-attributes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Registered DurableAdk")
    terminal.stop(dev, signal.SIGTERM)
    done = terminal.run("health")
    assert done.returncode == 1
    assert "tonic" not in done.stdout


def test_it_ends_and_says_why_when_nothing_answers(terminal):
    """S23: without Temporal and database it fails at once, and shows no password."""
    places = ["--address", "127.0.0.1:1", "--store", "postgresql://me:hunter2@127.0.0.1:1/x"]
    done = terminal.run("health", *places)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["failed"] * 3
    store, temporal, _ = done.stdout.splitlines()
    assert "127.0.0.1:1/x" in store
    assert "127.0.0.1:1" in temporal
    assert "hunter2" not in done.stdout + done.stderr


async def test_tables_of_a_deploy_that_goes_on_are_no_reason_to_end(terminal, postgres):
    """D6: workers of the version before continue over newer tables; no password is shown."""
    url = await postgres.make()
    assert terminal.run("db", "upgrade", "--store", url).returncode == 0
    await postgres.query(url, "UPDATE durable_adk_version SET version_num = '9999'")
    options = ["--address", "127.0.0.1:1", "--store", f"{url}?password=hunter2"]
    done = terminal.run("health", *options)
    assert done.stdout.startswith("ok      session store: postgresql://")
    assert "hunter2" not in done.stdout + done.stderr


async def test_a_worker_without_its_server_logs_no_errors_of_the_transport(terminal, tmp_path):
    """Temporal's core logs each call that it tries again; a person gets that as a log line."""
    async with TemporalServer.start(data_dir=tmp_path / "temporal", headless=True) as server:
        options = ["--address", server.address, "--store", "s.db"]
        worker = terminal.start("worker", EXAMPLE, *options, DURABLE_ADK_LOG_LEVEL="info")
        await asyncio.to_thread(until_true, lambda: health(terminal, "--here", *options)[0] == 0)

    def read() -> Iterator[str]:
        for line in worker.stderr:
            yield line
            if "temporalio.core" in line and "retried" in line:  # it is silent on the first tries
                worker.send_signal(signal.SIGTERM)

    errors = "".join(await asyncio.to_thread(list, read()))
    lines = [json.loads(line) for line in errors.splitlines()]
    core = [line for line in lines if line["logger"].startswith("temporalio.core")]
    assert any("retried" in line["event"] for line in core)
    assert "tonic" not in errors
    assert "temporal_log" not in errors
