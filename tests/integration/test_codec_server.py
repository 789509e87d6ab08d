"""``durable-adk codec``, beside a real Temporal whose histories are encrypted (D16, S7)."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload, Payloads

from durable_adk.encryption import Key
from durable_adk.ops.codec_server import Access
from tests.support.commands import Terminal
from tests.support.private_agent import KINDS, canary
from tests.support.private_place import OPEN_USER, Place, converse, found, key_file, placed

pytestmark = pytest.mark.thorough

UI = "http://localhost:8233"
TOKEN = Access().token


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Where the command is run."""
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def payloads_in(message: Message) -> list[Payload]:
    """All payloads of a message of Temporal's, at any depth."""
    if isinstance(message, Payload):
        return [message]
    inner: list[Payload] = []
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if descriptor.message_type.GetOptions().map_entry:
            values = list(value.values())
        else:
            values = list(value) if descriptor.is_repeated else [value]
        for one in values:
            if isinstance(one, Message):
                inner += payloads_in(one)
    return inner


def post(port: int, path: str, payloads: list[Payload], **headers: str) -> tuple[int, bytes]:
    """What the server answers."""
    body = json.dumps(json_format.MessageToDict(Payloads(payloads=payloads)))
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        headers = {"Content-Type": "application/json"} | headers
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


def temporal(address: str, *arguments: str) -> str:
    """What Temporal's own command line prints."""
    program = Path(sys.executable).with_name("temporal")
    command = [program, *arguments, "--address", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def raw(place: Place) -> tuple[str, list[Payload]]:
    """A workflow with a tool's call and result, and all payloads of all workflows, as they are."""
    kept: list[Payload] = []
    ids: list[str] = []
    async for execution in place.client.list_workflows():
        handle = place.client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        ids.append(execution.id)
        kept += [payload for event in history.events for payload in payloads_in(event)]
    return ids[-1], kept


def started(terminal: Terminal, *options: str, **env: str) -> tuple[Any, int, str]:
    """The running command, its port, and the token that it shows."""
    process = terminal.start("codec", "--port", "0", "--data-dir", ".", *options, **env)
    assert process.stdout is not None
    shown = "".join(process.stdout.readline() for _ in range(4))
    where = re.search(r"http://127\.0\.0\.1:(\d+)", shown)
    assert where, shown + terminal.stop(process)[1]
    token = re.search(r'"Bearer (.+?)"', shown)
    assert token
    return process, int(where[1]), token[1]


@pytest.mark.parametrize("threshold", [None, 0])
async def test_an_encrypted_history_is_read_by_those_who_have_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal, threshold: int | None
) -> None:
    """D16, S7: by HTTP and by Temporal's command line, also what is kept outside of Temporal.

    Without the token there is nothing; and no content is in the log of the command (I19).
    """
    keys = key_file(tmp_path / "keys", Key.new())
    settings = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys)}
    if threshold is not None:
        settings["DURABLE_ADK_PAYLOAD_THRESHOLD"] = str(threshold)
    async with placed(tmp_path, settings, monkeypatch) as place:
        await converse(place)
        workflow, payloads = await raw(place)
        assert found(b"".join(payload.data for payload in payloads)) == set()
        process, port, token = await asyncio.to_thread(
            started, terminal, "--origin", UI, **settings
        )
        bearer = {"Authorization": f"Bearer {token}"}
        status, body = await asyncio.to_thread(post, port, "/decode", payloads, **bearer)
        assert status == 200
        decoded = json_format.ParseDict(json.loads(body), Payloads()).payloads
        assert len(decoded) == len(payloads)
        text = b"".join(payload.data for payload in decoded)
        assert b"unreadable" not in text
        assert found(text) == set(KINDS) - {"artifact"}  # which never is in Temporal
        for other in ("/decode", f"/{TOKEN}/decode"):
            assert (await asyncio.to_thread(post, port, other, payloads))[0] == 401
        show = ["workflow", "show", "--detailed", "--workflow-id", workflow]
        address = place.client.service_client.config.target_host
        assert canary("message") not in await asyncio.to_thread(temporal, address, *show)
        endpoint = f"http://127.0.0.1:{port}"
        show += ["--codec-endpoint", endpoint, "--codec-auth", f"Bearer {token}"]
        assert canary("message") in await asyncio.to_thread(temporal, address, *show)
    out, log = await asyncio.to_thread(terminal.stop, process, signal.SIGTERM)
    assert process.returncode == 0
    assert out == ""
    assert log.count("codec.decoded") >= 2
    assert found(log.encode()) == set()
    assert OPEN_USER not in log
    assert token not in log


def test_a_token_of_ones_own_is_not_shown(tmp_path: Path, terminal: Terminal) -> None:
    """S7: what the environment gives stays there, and opens the server."""
    keys = key_file(tmp_path / "keys", Key.new())
    env = {"DURABLE_ADK_ENCRYPTION_KEYS": str(keys), "DURABLE_ADK_CODEC_TOKEN": TOKEN}
    process, port, shown = started(terminal, **env)
    assert shown == "$DURABLE_ADK_CODEC_TOKEN"
    assert post(port, "/decode", [], Authorization=f"Bearer {TOKEN}")[0] == 200
    assert post(port, "/decode", [], Authorization=f"Bearer {shown}")[0] == 401
    out, log = terminal.stop(process, signal.SIGINT)
    assert (process.returncode, out) == (0, "")
    assert TOKEN not in log


@pytest.mark.parametrize(
    ("options", "env", "said"),
    [
        ([], {}, "DURABLE_ADK_ENCRYPTION_KEYS"),
        (["--host", "0.0.0.0"], {}, "--allow-remote"),  # noqa: S104 - refused
        (["--host", "example.com"], {}, "--allow-remote"),
        (["--origin", "*"], {}, "origin"),
        ([], {"DURABLE_ADK_CODEC_TOKEN": "short"}, "DURABLE_ADK_CODEC_TOKEN"),
    ],
)
def test_what_would_not_be_safe_is_refused(
    terminal: Terminal, options: list[str], env: dict[str, str], said: str
) -> None:
    """S7: other machines and everybody's pages, unless somebody says that it is meant."""
    done = terminal.run("codec", "--port", "0", *options, **env)
    assert done.returncode == 1
    assert done.stdout == ""
    assert said in done.stderr
