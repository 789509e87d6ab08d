"""Answering calls that wait, on the command line."""

import json
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from tests.support.commands import Terminal
from tests.support.desk import DESK
from tests.support.scripts import gist
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough

SECRET = "canary-5b1f77"  # noqa: S105  # no secret of anybody


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A folder with the desk's agent."""
    opened = Terminal(tmp_path)
    (tmp_path / "desk.py").write_text(DESK)
    yield opened
    opened.close()


@dataclass
class Office:
    """A worker of the desk on a Temporal of its own."""

    terminal: Terminal
    options: list[str]
    worker: "subprocess.Popen[str] | None" = None

    def open(self) -> None:
        """Start the worker, and wait until it polls."""
        self.worker = self.terminal.work("desk.py", *self.options)

    def send(self, tool: str) -> list[str]:
        """Have a tool called in a session of its own; the commands that `run` says answer it."""
        options = [*self.options, "--session", tool]
        done = self.terminal.run("run", "desk.py", tool, *options)
        assert done.returncode == 0, done.stderr
        return re.findall(r"durable-adk (.*)$", done.stderr, re.MULTILINE)

    def pending(self) -> list[dict[str, Any]]:
        """The calls that wait."""
        done = self.terminal.run("pending", "--json", *self.options[2:4])
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, server: TemporalServer) -> Iterator[Office]:
    """The office, open."""
    opened = Terminal(tmp_path_factory.mktemp("office"))
    (opened.folder / "desk.py").write_text(DESK)
    queue = f"office-{opened.folder.name}-{time.time_ns()}"
    office = Office(opened, ["--address", server.address, "--store", "s.db", "--task-queue", queue])
    office.open()
    yield office
    opened.close()


def refunds(terminal: Terminal) -> list[str]:
    """What the tool has done."""
    file = terminal.folder / "refunds.txt"
    return file.read_text().split() if file.exists() else []


def test_what_run_prints_can_be_typed(terminal: Terminal) -> None:
    """TOL-60: `run` says what waits and how to answer; that command lets the tool run, once."""
    done = terminal.run("run", "desk.py", "refund", "--session", "s")
    assert done.returncode == 0
    assert "waiting for approval of refund(amount=5)" in done.stderr
    assert "requests approval of refund(amount=5)" in done.stdout
    assert refunds(terminal) == []
    (command,) = re.findall(r"durable-adk (approve .*)$", done.stderr, re.MULTILINE)
    unserved = terminal.run(*shlex.split(command)[:2])
    assert unserved.returncode == 1
    assert "nothing was sent" in unserved.stderr
    done = terminal.run(*shlex.split(command))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == '[desk]: refund returned {"refunded": 5}'
    assert refunds(terminal) == ["5"]
    assert terminal.run("pending").stdout == "No calls are waiting for an answer.\n"
    until_true(lambda: not terminal.processes())


def test_a_killed_worker_does_not_lose_what_waits(office: Office) -> None:
    """D9: SIGKILL while it waits; the next worker takes the answer, for the same invocation."""
    commands = office.send("order")
    (waiting,) = [item for item in office.pending() if item["tool"] == "order"]
    assert (waiting["kind"], waiting["arguments"]) == ("long_running", {"item": "tea"})
    assert office.worker is not None
    office.worker.send_signal(signal.SIGKILL)
    office.worker.communicate()
    office.open()
    respond = shlex.split(commands[0])
    respond[respond.index('{"result": "..."}')] = '{"status": "delivered"}'
    done = office.terminal.run(*respond, "--json")
    assert done.returncode == 0, done.stderr
    (event,) = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    assert "delivered" in gist(event)
    assert event.invocation_id == waiting["invocationId"]


def test_a_payload_is_filled_in(office: Office) -> None:
    """TOL-61, TOL-63: the hint and the payload are shown, and the tool gets what was decided."""
    approve, _ = office.send("seats")
    words = shlex.split(approve)
    assert words[words.index("--payload") + 1] == '{"seats": 0}'
    words[words.index("--payload") + 1] = '{"seats": 3}'
    done = office.terminal.run(*words)
    assert '{"taken": {"seats": 3}}' in done.stdout


def test_a_rejected_call_does_not_run(office: Office) -> None:
    """TOL-63: the model learns of it, the tool is not called; --detach leaves once it is taken."""
    _, reject = office.send("refund")
    done = office.terminal.run(*shlex.split(reject), "--detach")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith("accepted.\n")
    assert refunds(office.terminal) == []


def test_a_credential_reaches_the_tool_and_nothing_else(
    office: Office, server: TemporalServer
) -> None:
    """TOL-51, TOL-55, TRAP-48: it is in no output, no event and no history."""
    (answer,) = office.send("mail")
    assert answer.startswith("credential ")
    done = office.terminal.run(*shlex.split(answer), stdin=f"{SECRET}\n")
    assert done.returncode == 0, done.stderr
    assert f'mail returned {{"sent_with": {len(SECRET)}}}' in done.stdout
    assert SECRET not in done.stdout + done.stderr
    folder = office.terminal.folder
    files = [file for file in folder.rglob("*") if file.is_file()]
    files += server._process.log.parent.glob("temporal.db*")
    holding = [file.parent.name for file in files if SECRET.encode() in file.read_bytes()]
    assert holding == ["credentials"]


def test_a_cancelled_invocation_waits_no_more(office: Office) -> None:
    """CAN-1, CAN-2: its call is sealed, its last event says so; a second time it had ended.

    With a forgotten --address nothing is given up: another Temporal does not run it.
    """
    office.send("order")
    (waiting,) = [item for item in office.pending() if item["tool"] == "order"]
    cancel = ["cancel", waiting["invocationId"][:12]]
    elsewhere = office.terminal.run(*cancel, *office.options[2:4])
    assert elsewhere.returncode == 1
    assert "does not run invocation" in elsewhere.stderr
    assert len(elsewhere.stderr.splitlines()) == 1
    done = office.terminal.run(*cancel, *office.options[:4])
    assert done.returncode == 0, done.stderr
    assert "INVOCATION_ABORTED" in done.stdout.splitlines()[-1]
    again = office.terminal.run(*cancel, *office.options[:4])
    assert (again.returncode, again.stdout) == (0, "")
    assert "had already ended: cancelled" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pending"], "There is no session store at .*sessions.db"),
        (["cancel", "e-1", "--store", "s.db"], "No invocation has an id that begins with 'e-1'"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    terminal: Terminal, arguments: list[str], message: str
) -> None:
    """What cannot be done ends with exit code 1 and one line; a look makes no data folder."""
    (terminal.folder / "s.db").touch()
    done = terminal.run(*arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert re.search(message, done.stderr)
    assert not (terminal.folder / ".durable-adk").exists()
