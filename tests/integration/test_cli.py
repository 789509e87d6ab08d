"""The command line, used as a user uses it."""

import os
import re
import signal

import pytest

from durable_adk.embedded import ServerInfo
from durable_adk.events import Event
from tests.support.commands import EXAMPLE, TRIP, Terminal, ledger
from tests.support.scripts import gist
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough

STARTED = re.compile("worker.started")

LOUD = """
from durable_adk.agents import LlmAgent

def get_capital(country: str) -> str:
    '''Find the capital of a country.'''
    print("I am", country)
    if country == "Atlantis":
        raise LookupError("sunk\\n\\x1b[2J")
    return "Paris"

root_agent = LlmAgent(name="loud", model="offline", tools=[get_capital])
"""


MUTE = """
from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel

root_agent = LlmAgent(name="mute", model=ScriptedModel(replies=[]))
"""


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def loud(terminal):
    (terminal.folder / "loud.py").write_text(LOUD)
    return "loud.py"


def test_run_prints_the_events_and_leaves_nothing_running(terminal):
    """One command: server, store and worker come and go, the data stays, out of git's sight."""
    done = terminal.run("run", EXAMPLE, TRIP, "--session", "s")
    assert (done.returncode, done.stderr) == (0, "session s of user user\n")
    said = [line.removeprefix("[capital_agent]: ") for line in done.stdout.splitlines()]
    assert said[:3] == [
        'calls get_capital(country="France")',
        'get_capital returned {"capital": "Paris"}',
        'calls book_trip(city="Paris")',
    ]
    assert len(said) == 5
    data = terminal.folder / ".durable-adk"
    assert (data / ".gitignore").read_text() == "*\n"
    until_true(lambda: not terminal.processes())


def test_json_is_one_event_a_line(terminal, loud):
    """With --json standard output holds ADK's JSON alone, though the agent's tool prints."""
    done = terminal.run("run", loud, "What is the capital of France?", "--json")
    events = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    assert [gist(event) for event in events][:2] == [
        "loud call get_capital",
        "loud response get_capital",
    ]
    assert '"functionCall"' in done.stdout
    assert "I am France" in done.stderr


def test_without_a_message_it_is_a_chat(terminal, loud):
    """Each line is a turn of one session, until `exit`."""
    lines = "What is the capital of France?\n\nWhat is the capital of France?\nexit\nnever\n"
    done = terminal.run("run", loud, stdin=lines)
    assert done.returncode == 0
    assert done.stdout.count("[user]: ") == 4
    assert done.stdout.count("calls get_capital") == 2
    assert done.stderr.count("session ") == 1


def test_a_failed_run_is_one_line(terminal, loud):
    """Exit code 1, the error in one line and the user's lines below it, no traceback (S24)."""
    done = terminal.run("run", loud, "What is the capital of Atlantis?")
    assert done.returncode == 1
    *_, error, place = done.stderr.splitlines()
    assert error.startswith("Error: LookupError: ")
    assert re.fullmatch(r"  \S*/loud\.py:\d+ in get_capital", place)
    assert "Traceback" not in done.stderr
    assert "[loud]: LookupError" not in done.stdout, "the error is printed once"
    assert "\x1b" not in done.stdout + done.stderr


def test_a_model_that_refuses_is_one_line(terminal):
    """The engine's log of the failed attempt, a traceback, is not what the user gets to read."""
    (terminal.folder / "mute.py").write_text(MUTE)
    done = terminal.run("run", "mute.py", "hello")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 2
    assert done.stderr.splitlines()[1].startswith("Error: ModelError: ")
    assert "ModelError" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere", "hi"], "nowhere: there is no such folder"),
        (["worker", EXAMPLE, "--address", "127.0.0.1:1"], "does not answer at 127.0.0.1:1"),
        (["run", EXAMPLE, "hi", "--session", "a\x1bb"], "control character"),
        (["run", EXAMPLE, "hi", "--store", "mysql://root:secret@db/x"], "'mysql' is not supported"),
        (["attach", EXAMPLE, "e-none", "--session", "s"], "e-none"),
    ],
)
def test_a_mistake_is_told_in_one_line(terminal, arguments, message):
    """What cannot be done ends with exit code 1 and one line that says why."""
    done = terminal.run(*arguments)
    errors = done.stderr.splitlines()
    if arguments[:2] != ["run", "nowhere"]:  # which begins no session
        errors = [line for line in errors if not line.startswith("session ")]
    assert done.returncode == 1
    assert len(errors) == 1
    assert re.search(message, errors[0])
    assert "\x1b" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize("lines", [[], ["--json"]])
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_reader_that_goes_ends_a_command_in_silence(terminal, command, lines):
    """`| head -1` closes the pipe while the command has more to print; no error is reported."""
    words, said = {
        "check": ([], ""),
        "run": ([TRIP, "--session", "s"], "session s of user user\n"),
    }[command]
    running = terminal.start(command, EXAMPLE, *words, *lines)
    running.stdout.close()
    assert running.wait(60) == 1
    assert running.stderr.read() == said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_can_be_attached_to(terminal, number, code):
    """Ctrl-C in the middle of a tool loses nothing: the printed command shows all of it."""
    running = terminal.start("run", EXAMPLE, TRIP, DURABLE_ADK_DEMO_SECONDS="600")
    until_true(lambda: ledger(terminal.folder) == ["started"])
    _, stderr = terminal.stop(running, number)
    assert running.returncode == code
    until_true(lambda: not terminal.processes())
    command = stderr.partition("durable-adk attach ")[2].split()
    done = terminal.run("attach", *command, "--json")
    events = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    assert [gist(event) for event in events[:4]] == [
        f"user text {TRIP}",
        "capital_agent call get_capital",
        "capital_agent response get_capital",
        "capital_agent call book_trip",
    ]
    assert len({event.id for event in events}) == len(events) == 6
    assert ledger(terminal.folder) == ["started", "started", "done"]


@pytest.mark.sampled(3)
def test_two_runs_at_once_share_a_server(terminal, loud):
    """Commands in one folder do not stop the server under each other."""
    question = "What is the capital of France?"
    runs = [terminal.start("run", loud, question) for _ in range(3)]
    for run in runs:
        run.communicate(timeout=60)
    assert [run.returncode for run in runs] == [0, 0, 0]


def test_what_is_said_of_another_server_does_not_disturb(terminal):
    """What the environment says of a Temporal elsewhere is not applied to the embedded one."""
    env = {"TEMPORAL_NAMESPACE": "prod", "TEMPORAL_API_KEY": "k"}
    done = terminal.run("run", EXAMPLE, "What is the capital of France?", **env)
    assert done.returncode == 0


def test_a_profile_says_where_temporal_is(terminal, server):
    """D18: to every command; one with the embedded server would erase half of what there is."""
    profile = f'[profile.ours]\naddress = "{server.address}"\n'
    (terminal.folder / "temporal.toml").write_text(profile)
    env = {"TEMPORAL_CONFIG_FILE": "temporal.toml", "TEMPORAL_PROFILE": "ours"}
    queue = ["--task-queue", terminal.folder.name]
    terminal.start("worker", EXAMPLE, *queue, **env)
    until_true(lambda: terminal.run("health", *queue, **env).returncode == 0)
    done = terminal.run("run", EXAMPLE, "What is the capital of Peru?", *queue, **env)
    assert "Lima" in done.stdout
    done = terminal.run("erase", "--user", "user", **env)
    assert re.search(r"found [1-9]\d* workflow runs", done.stdout), done.stdout
    assert not list(terminal.folder.rglob("temporal.db*")), "no server was started here"
    done = terminal.run("run", EXAMPLE, "Hello", **env | {"TEMPORAL_PROFILE": "none"})
    assert done.returncode == 2
    assert "Profile 'none' not found" in " ".join(done.stderr.split())


def test_a_worker_serves_until_it_is_told_to_stop(terminal, server):
    """A worker and a client on a Temporal of their own: events arrive, SIGTERM ends with 0."""
    options = ["--address", server.address, "--store", "s.db", "--task-queue", terminal.folder.name]
    worker = terminal.work(EXAMPLE, *options)
    done = terminal.run("run", EXAMPLE, "What is the capital of Peru?", *options)
    _, log = terminal.stop(worker, signal.SIGTERM)
    assert done.returncode == worker.returncode == 0
    assert "Lima" in done.stdout
    assert "worker.started" in log
    assert "Traceback" not in log


def server_info(terminal: Terminal) -> ServerInfo:
    file = terminal.folder / ".durable-adk" / "server.json"
    until_true(file.exists)
    return ServerInfo.model_validate_json(file.read_text())


@pytest.mark.sampled(3)
def test_dev_replaces_what_dies(terminal):
    """`dev` serves `run`, restarts a killed worker or server, and takes all with it at Ctrl-C."""
    dev = terminal.start("dev", EXAMPLE)
    worker_log = terminal.folder / ".durable-adk" / "worker.log"

    def workers() -> list[str]:
        return STARTED.findall(worker_log.read_text()) if worker_log.exists() else []

    until_true(workers)
    for pid in terminal.processes("cli.dev.worker"):
        os.kill(pid, signal.SIGKILL)
    until_true(lambda: len(workers()) == 2)
    before = server_info(terminal)
    os.kill(before.pid, signal.SIGKILL)
    until_true(lambda: server_info(terminal).pid != before.pid)
    assert server_info(terminal).address == before.address
    done = terminal.run("run", EXAMPLE, "What is the capital of Peru?")
    assert "Lima" in done.stdout
    assert dev.poll() is None
    stdout, _ = terminal.stop(dev)
    assert dev.returncode == 0
    assert "http://127.0.0.1:" in stdout
    until_true(lambda: not terminal.processes())
