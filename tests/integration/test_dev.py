"""`durable-adk dev` as a developer uses it: what it shows, reloads, keeps and leaves behind."""

import os
import random
import re
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from durable_adk.cli.dev.state import DevState
from durable_adk.events import Event
from tests.support.commands import Terminal
from tests.support.waiting import until_true

pytestmark = [pytest.mark.thorough, pytest.mark.sampled(6)]

WEATHER = """
import time
from pathlib import Path
from durable_adk.agents import LlmAgent

def get_weather(city: str) -> str:
    '''Get the weather of a city.'''
    print("looking up", city, end="", flush=True)
    with Path("ledger").open("a") as ledger:
        ledger.write("started ")
    time.sleep(SECONDS)
    with Path("ledger").open("a") as ledger:
        ledger.write("done ")
    return f"sunny in {city}"

root_agent = LlmAgent(name="weather", model="offline", tools=[get_weather])
"""
TILL = """
from durable_adk.agents import LlmAgent
from durable_adk.tools import FunctionTool

def refund(order: str) -> str:
    '''Refund an order.'''
    return f"refunded {order} by v1"

def close_till(order: str) -> str:
    '''Close the till of an order.'''
    raise RuntimeError("the key is lost")

tools = [FunctionTool(refund, require_confirmation=True), close_till]
root_agent = LlmAgent(name="till", model="offline", tools=tools)
"""


class Dev(Terminal):
    """A folder with two agents, and a `dev` that serves them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name, code in {"weather": WEATHER.replace("SECONDS", "0"), "till": TILL}.items():
            (folder / "agents" / name).mkdir(parents=True)
            (folder / "agents" / name / "agent.py").write_text(code)
        (folder / "agents" / "__pycache__").mkdir()

    def code(self, name: str) -> Path:
        """The file of an agent."""
        return self.folder / "agents" / name / "agent.py"

    @property
    def state(self) -> DevState:
        """What `dev` has written."""
        return DevState.model_validate_json((self.folder / ".durable-adk/dev.json").read_bytes())

    def workers(self) -> int:
        """How many workers have begun to serve, all in all."""
        log = self.folder / ".durable-adk" / "worker.log"
        return log.read_text().count('"worker.started"') if log.exists() else 0

    def serve(self, *options: str) -> "Dev":
        """Start `dev`, and wait until both apps are served."""
        before = self.workers()
        self.dev = self.start("dev", "agents", *options)
        until_true(lambda: self.dev.poll() is not None or self.workers() == before + 2)
        return self

    def changed(self, name: str, old: str, new: str) -> None:
        """Change the code of an agent, and wait until it is served."""
        before = self.workers()
        self.code(name).write_text(self.code(name).read_text().replace(old, new))
        until_true(lambda: self.workers() == before + 2)

    def ask(self, app: str, message: str, session: str = "s") -> list[Event]:
        """What an app answers, from another process."""
        done = self.run("run", app, message, "--session", session, "--json")
        assert done.returncode == 0, done.stderr
        return [Event.model_validate_json(line) for line in done.stdout.splitlines()]

    def end(self, number: int = signal.SIGINT) -> list[str]:
        """End `dev`; the lines that it has written, without the columns before the author."""
        stdout, _ = self.stop(self.dev, number)
        return [re.sub(r"^\d\d:\d\d:\d\d  .{12}  ", "", one) for one in stdout.splitlines()]


@pytest.fixture
def dev(tmp_path):
    opened = Dev(tmp_path)
    yield opened
    opened.close()


def test_a_folder_of_agents_is_served_and_shown(dev):
    """A line for each message, call, result, error and end; prints in their place; approvals."""
    dev.serve()
    assert dev.state.apps == ["till", "weather"]
    dev.ask("weather", "What is the weather in Rome?", session="trip")
    dev.ask("till", "Refund order 7.")
    pending = dev.run("pending").stdout
    dev.run("run", "till", "Close the till of order 7.", "--session", "t")
    shown = dev.end()
    assert dev.dev.returncode == 0
    begin = shown.index("user     What is the weather in Rome?  to weather")
    lines = shown[begin + 1 : begin + 6]
    # What a tool prints comes through a pipe of its own, and on a busy machine after its result.
    lines.remove("looking up Rome")
    assert lines == [
        'weather  calls get_weather(city="Rome")',
        'weather  get_weather returned {"result": "sunny in Rome"}',
        "weather  get_weather returned sunny in Rome.",
        shown[begin + 5],
    ]
    assert re.fullmatch(r" +completed after \d+\.\d s", shown[begin + 5])
    begin = shown.index('         waits for approval of refund(order="7")')
    approve = re.fullmatch(r" +approve +(durable-adk approve adk-\w{8})", shown[begin + 1])
    assert approve
    assert pending.count(f"{approve[1]}\n") == 1, "the same command; `dev` serves the app"
    failed = next(one for one in shown if "RuntimeError: the key is lost" in one)
    assert failed.startswith("till ")
    place = re.compile(r"\s+at +.*agents/till/agent.py:\d+ in close_till")
    assert any(place.match(one) for one in shown)
    told = dev.run("show", "t").stdout
    assert "failed: RuntimeError: the key is lost" in told
    assert place.search(told)


def test_what_waits_goes_on_with_changed_code(dev):
    """An approval that was asked for before is acted on by the new code, once."""
    dev.serve()
    asked = dev.ask("till", "Refund order 7.")
    dev.changed("till", "v1", "v2")
    call = asked[0].get_function_calls()[0]
    (name,) = re.findall(r"durable-adk approve (adk-\w+)", dev.run("pending").stdout)
    done = dev.run("approve", name, "--json")
    events = [Event.model_validate_json(line) for line in done.stdout.splitlines()]
    answers = [one.response for event in events for one in event.get_function_responses()]
    assert answers == [{"result": "refunded 7 by v2"}]
    assert events[-1].text == "refund returned refunded 7 by v2."
    shown = dev.run("show", "s").stdout
    assert shown.count("by v2") == 2, shown
    assert call.name == "refund"


def test_a_tool_that_runs_is_neither_lost_nor_doubled_by_a_change(dev):
    """It ends in the process that began it, and the invocation continues in the next one."""
    dev.code("weather").write_text(WEATHER.replace("SECONDS", "4"))
    dev.serve()
    running = dev.start(
        "run", "weather", "What is the weather in Rome?", "--session", "s", "--json"
    )
    until_true((dev.folder / "ledger").exists)
    dev.changed("weather", "sunny", "rainy")
    stdout, stderr = running.communicate(timeout=60)
    events = [Event.model_validate_json(line) for line in stdout.splitlines()]
    assert [event.text for event in events][-1] == "get_weather returned sunny in Rome.", stderr
    assert len(events) == 3
    assert (dev.folder / "ledger").read_text() == "started done "
    assert "rainy in Oslo" in dev.ask("weather", "What is the weather in Oslo?")[-1].text


def test_code_that_cannot_be_loaded_is_said_and_the_one_before_goes_on(dev):
    """File and line of the mistake are shown; messages are answered meanwhile, and afterwards."""
    dev.serve()
    code = dev.code("till").read_text()
    dev.code("till").write_text(f"{code}\ndef broken(:\n")
    read = dev.dev.stderr.readline  # what dev says is the line that is waited for
    said = next(line for line in iter(read, "") if "code.not_loaded" in line)
    assert f"agents/till/agent.py:{code.count(chr(10)) + 2}: SyntaxError" in said
    assert dev.ask("weather", "What is the weather in Rome?")[-1].text.endswith("sunny in Rome.")
    before = dev.workers()
    dev.code("till").write_text(code.replace("v1", "v3"))
    until_true(lambda: dev.workers() == before + 2)
    assert "code.not_loaded" not in dev.stop(dev.dev)[1]


def test_code_that_waits_while_it_is_imported_is_replaced(dev):
    """The one before continues meanwhile, and the next change is loaded."""
    dev.serve()
    code = dev.code("till").read_text()
    before = dev.workers()
    begin = "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(1000)\n"
    dev.code("till").write_text(begin + code)
    until_true((dev.folder / "importing").exists)
    assert dev.ask("weather", "What is the weather in Rome?")[-1].text.endswith("sunny in Rome.")
    dev.code("till").write_text(code.replace("v1", "v3"))
    until_true(lambda: dev.workers() == before + 2)
    dev.stop(dev.dev)


def two_free_ports() -> int:
    """The first of two ports that are free, and that no connection gets as its own."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            socket.create_server(("127.0.0.1", port + 1)).close()
            return port
    raise AssertionError("no two ports are free")


def test_ports_are_kept_unless_they_are_taken(dev):
    """Temporal's is that of the last start, the one asked for, or another if a program has it.

    Its UI runs only at a port that is asked for.
    """
    port = two_free_ports()
    dev.serve("--no-reload", "--port", str(port), "--ui-port", str(port + 1))
    assert dev.state.port == port
    assert f"http://127.0.0.1:{port + 1}" in "".join(dev.end())
    with socket.create_server(("127.0.0.1", port)):
        dev.serve()
        assert dev.state.port != port
        shown, log = dev.stop(dev.dev)
    assert "port.in_use" in log
    assert str(port) in log
    assert "http://" not in shown


def test_two_apps_of_one_name_are_refused(dev):
    """The error names both, and what to do; nothing is left running."""
    other = dev.folder / "more" / "weather"
    other.mkdir(parents=True)
    (other / "agent.py").write_text("from weather.agent import root_agent")
    done = dev.run("dev", "agents", "more/weather/agent.py")
    assert done.returncode == 1
    assert "AgentDefinitionError" in done.stderr
    assert "rename" in done.stderr
    until_true(lambda: not dev.processes())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_running(dev, number):
    """Server and worker end with `dev`, also while a tool runs, and also if it is killed."""
    dev.code("weather").write_text(WEATHER.replace("SECONDS", "3"))
    dev.serve()
    running = dev.start("run", "weather", "What is the weather in Rome?")
    until_true((dev.folder / "ledger").exists)
    assert len(dev.processes("cli.dev.worker")) == 1
    os.kill(running.pid, signal.SIGKILL)
    dev.stop(dev.dev, number)
    until_true(lambda: not dev.processes())
