"""The examples, run as their READMEs say: in processes of their own, and in this one."""

import json
import re
import shlex
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest
from google.genai import types

from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.cli.server import load_app
from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from durable_adk.runners import InMemoryRunner, Runner
from durable_adk.sessions import InMemorySessionService
from tests.support.commands import Terminal
from tests.support.scripts import gist

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/agent.py"))
REFUND = "examples/refund_approval"
SESSION = "refund"

Play = Callable[[str], Awaitable[list[Event]]]
"""Runs a command of a README; the events that it shows."""


def commands(name: str) -> list[str]:
    """What an example's README tells to type, without the program's name."""
    text = (EXAMPLES / name / "README.md").read_text()
    return re.findall(r"^    durable-adk (.+)$", text, re.MULTILINE)


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """A folder beside the examples, whose embedded server stays up for all commands."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "examples").symlink_to(EXAMPLES)
    async with TemporalServer.start(data_dir=folder / ".durable-adk", headless=True):
        yield folder


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch):
    """The examples that are imported here choose their stand-ins, as they do in `Terminal`."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
async def test_an_empty_message_is_answered(no_key: None, name: str) -> None:
    """A front end may send a text without a letter, which no model is shown."""
    async with InMemoryRunner(app=load_app(str(EXAMPLES / name))) as runner:
        here = {"user_id": "u", "session_id": "s"}
        await runner.session_service.create_session(app_name=runner.app_name, **here)
        empty = types.Content(role="user", parts=[types.Part(text="")])
        events = [event async for event in runner.run_async(**here, new_message=empty)]
    assert events


@pytest.fixture
def terminal(place: Path):
    opened = Terminal(place)
    yield opened
    opened.close()


def typed(terminal: Terminal, command: str) -> list[Event]:
    """Type a command; the events that it prints."""
    done = terminal.run(*shlex.split(command), "--json")
    assert done.returncode == 0, (command, done.stderr)
    return [Event.model_validate_json(line) for line in done.stdout.splitlines()]


def in_process(example: str) -> Runner:
    """A runner of an example that needs no server."""
    return Runner(
        app=load_app(str(ROOT / example)),
        session_service=InMemorySessionService(),
        artifact_service=InMemoryArtifactService(),
        auto_create_session=True,
    )


class OneRunner:
    """Does what the `run` commands of one example do, without a server, all in one runner."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._runner: Runner | None = None

    async def __call__(self, command: str) -> list[Event]:
        _, example, *options, message = shlex.split(command)
        session = options[1] if options else uuid.uuid4().hex
        if self._runner is None:
            self._runner = await self._stack.enter_async_context(in_process(example))
        events = self._runner.run_async(user_id="user", session_id=session, new_message=message)
        return [event async for event in events]


@pytest.fixture
async def play(no_key) -> AsyncIterator[Play]:
    """Run commands in this process."""
    async with AsyncExitStack() as stack:
        yield OneRunner(stack)


def said(events: list[Event]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(event.author, event.text) for event in events if event.text]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_told_of(name):
    """A README of 20 to 40 lines that begins with one command, short code, a line in the index."""
    folder = EXAMPLES / name
    assert 20 <= len((folder / "README.md").read_text().splitlines()) <= 40
    assert commands(name)[0].startswith(f"run examples/{name} ")
    assert all(len(file.read_text().splitlines()) < 100 for file in folder.glob("*.py"))
    index = (EXAMPLES / "README.md").read_text()
    assert f"[{name}]({name})" in index
    assert (
        name == "capital_agent" or f"`{commands(name)[0].removeprefix('run examples/')}`" in index
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "capital_agent"])
async def test_the_readmes_command_shows_what_happens_in_process(terminal, play, name):
    """As a process, on Temporal, an example's events are those of the same loop without it."""
    typed_in, in_process = typed(terminal, commands(name)[0]), await play(commands(name)[0])
    # Agents side by side interleave as it comes, and numbers are made of the invocation's id.
    shown = [re.sub(r"\b[RW]-\w{6}", "number", gist(event)) for event in typed_in]
    assert sorted(shown) == sorted(
        re.sub(r"\b[RW]-\w{6}", "number", gist(event)) for event in in_process
    )


async def test_the_story_is_brightened_only_when_it_is_dark(play):
    """The custom agent drives the others, and decides by what they have committed."""
    dark = said(await play(commands("story_flow")[0]))
    rounds = ["critic", "reviser"] * 2
    checked = ["writer", *rounds, "grammar_check", "tone_check"]
    assert [author for author, _ in dark] == [*checked, "brightener", "story_flow"]
    assert "lonely lighthouse keeper" in dark[0][1]
    assert dark[-1][1] == dark[-2][1] != dark[-4][1]
    bright = said(await play('run examples/story_flow "Write a story about a cheerful baker."'))
    assert [author for author, _ in bright] == [*checked, "story_flow"]
    assert bright[-1][1] == bright[-3][1]


async def test_the_pipeline_hands_over_better_code(play):
    """Each agent works on what the one before it left in the state."""
    events = await play(commands("code_pipeline")[0])
    (_, draft), (_, findings), (_, better) = said(events)
    assert [event.author for event in events] == ["writer", "reviewer", "refactorer"]
    assert "Capital letters" in findings
    counted: list[int] = []
    for code in (draft, better):
        names: dict[str, Callable[[str], int]] = {}
        exec(code, names)  # noqa: S102 # the example's own code
        counted.append(names["count_vowels"]("An Owl"))
    assert counted == [0, 2]
    assert "refactored_code" in events[-1].actions.state_delta


async def test_the_research_is_made_side_by_side(play):
    """All three call before the first has an answer, and the brief has all three findings."""
    events = await play(commands("parallel_research")[0])
    calls = [event.author for event in events[:3] if event.get_function_calls()]
    assert sorted(calls) == ["climate_researcher", "cost_researcher", "sights_researcher"]
    findings = dict(said(events))
    brief = findings.pop("editor")
    assert len(findings) == 3
    assert all(finding in brief for finding in findings.values())
    assert brief.endswith("I would go: it is warm and a room is cheap.")


async def test_the_loop_ends_when_the_critic_is_content(play):
    """Each round takes a word away; the last event leaves the loop."""
    events = await play(commands("refinement_loop")[0])
    headlines = [text for author, text in said(events) if author != "critic"]
    assert [len(text.split()) for text in headlines] == [11, 10, 9, 8, 7]
    assert headlines[-1] == "Our small library survives every single crash"
    assert [gist(event) for event in events[-2:]] == [
        "refiner call exit_loop",
        "refiner response exit_loop",
    ]
    assert events[-1].actions.escalate


async def test_the_desk_routes_each_message_to_who_has_the_conversation(play):
    """A follow-up needs no hand-over, another matter makes one, to a neighbour (AGT-41, AGT-51)."""
    turns = [await play(command) for command in commands("help_desk")]
    handed = [
        event.actions.transfer_to_agent
        for events in turns
        for event in events
        if event.get_function_responses()
    ]
    assert handed == ["billing", None, None, "technical", None, "general", None]
    answers = [said(events)[-1] for events in turns]
    assert answers == [
        ("billing", "The invoice of 39.00 euros is open."),
        ("billing", "The invoice of 12.50 euros is open."),
        ("technical", "The mail service is slow."),
        ("general", "We are closed on Sunday."),
    ]


async def test_reports_are_kept_version_by_version(play):
    """Saving again makes a version; the user's file is in the instruction of every session."""
    turns = [await play(command) for command in commands("report_artifacts")]
    saved = [
        event.actions.artifact_delta
        for events in turns
        for event in events
        if event.actions.artifact_delta
    ]
    assert saved == [{"report.md": 0}, {"user:signature.txt": 0}, {"report.md": 1}]
    assert said(turns[3])[-1][1] == "# Sales in June\n- kettles: 95\n- lamps: 120\nYours, Ann"
    assert said(turns[4])[-1][1] == "0: # Sales in May\n1: # Sales in June"
    command = 'run examples/report_artifacts --session other "Write the sales report for April."'
    written = (await play(command))[2].get_function_calls()[0]
    assert (written.args or {})["text"].endswith("Yours, Ann")


def test_a_users_file_is_there_in_other_sessions_and_processes(terminal):
    """What one command saves as `user:`, the next finds in the instruction of a new session."""
    signed, june = commands("report_artifacts")[1:3]
    typed(terminal, signed)
    written = typed(terminal, june.replace("books", "other"))[2].get_function_calls()[0]
    assert (written.args or {})["text"].endswith("Yours, Ann")


def pending(terminal: Terminal) -> str:
    """The id of the one call that waits in the session."""
    options = ["refund_approval", "--session", SESSION, "--json"]
    (line,) = terminal.run("pending", *options).stdout.splitlines()
    return json.loads(line)["callId"]


def test_a_refund_waits_while_nothing_runs(terminal):
    """The README's commands, with their ids; the worker that has it meanwhile is killed."""
    ask, _, respond, approve = commands("refund_approval")[:4]
    asked = terminal.run(*shlex.split(ask), "--session", SESSION)
    call = asked.stderr.partition("durable-adk respond ")[2].split()[0]
    info = json.loads((terminal.folder / ".durable-adk" / "server.json").read_text())
    with serving(terminal, info["address"]):
        respond = respond.replace(f"--target {REFUND}", f"--address {info['address']}")
        events = typed(terminal, re.sub(r"adk-\w+", call, respond))
        assert gist(events[-1]) == "refund_approval response refund"
    events = typed(terminal, re.sub(r"adk-\w+", pending(terminal), approve))
    assert re.fullmatch(r"Refunded 180\.00 euros for A-17, receipt R-\w{6}\.", events[-1].text)


def test_a_draft_is_changed_until_it_is_accepted(terminal):
    """The README's commands: a comment leads back to the draft, and to a new question."""
    ask, _, comment, accept = commands("draft_review")[:4]
    shown = terminal.run(*shlex.split(ask))
    assert shown.stdout.splitlines()[-1].startswith(
        "[draft_review]: review asks: Is this text good?"
    )
    for answer, count in ((comment, 2), (accept, 3)):
        newest = terminal.run("pending", "draft_review", "--json").stdout.splitlines()[-1]
        events = typed(
            terminal, re.sub(r"respond \w+", f"respond {json.loads(newest)['callId']}", answer)
        )
        outputs = [event.output for event in events if event.output is not None]
        assert len(outputs) == count
    text = "We are happy to announce: The library has a second floor (mention the lift)."
    assert outputs[-1] == {"published": text, "characters": len(text)}
    drawn = terminal.run(*shlex.split(commands("draft_review")[4])).stdout
    assert '    decide -->|"default"| write\n' in drawn


@contextmanager
def serving(terminal: Terminal, address: str) -> Iterator[None]:
    """A worker process that serves the refunds, and is killed at the end."""
    options = ["--address", address, "--task-queue", "durable-adk-refund_approval"]
    worker = terminal.start("worker", REFUND, *options)
    assert worker.stderr
    assert any("worker.started" in line for line in worker.stderr)
    yield
    worker.kill()


@pytest.mark.parametrize(
    ("amount", "result", "decision", "last"),
    [
        (180, "damaged", None, "There is no refund: the parcel came back damaged."),
        (180, "as new", False, "There is no refund: This tool call is rejected."),
        (20, "as new", None, "Refunded 20.00 euros for A-17"),
    ],
)
async def test_a_refund_follows_the_rules(no_key, amount, result, decision, last):
    """No refund of what is damaged or rejected, a small one without approval."""
    place = {"user_id": "u", "session_id": "s"}
    async with in_process(REFUND) as runner:
        message = f"Refund {amount} euros for order A-17."
        events = [event async for event in runner.run_async(**place, new_message=message)]
        answers = [{"result": result}, *([] if decision is None else [{"confirmed": decision}])]
        for response in answers:
            (call,) = await runner.pending(**place)
            part = types.FunctionResponse(id=call.call_id, name=call.name, response=response)
            answer = types.Content(role="user", parts=[types.Part(function_response=part)])
            events = [event async for event in runner.run_async(**place, new_message=answer)]
        assert await runner.pending(**place) == []
    assert events[-1].text.startswith(last)


async def test_a_document_is_summarised_page_by_page(play):
    """The join has a key for each branch, and the summaries are in the order of the pages."""
    *_, collected, report = await play(commands("document_pipeline")[0])
    summaries = ["Rates rose.", "Rents fell in May.", "Nobody knows why."]
    assert collected.output == {"summarise": summaries, "count": {"pages": 3, "words": 13}}
    assert report.output.splitlines() == [
        "3 pages, 13 words",
        *(f"{number}. {text}" for number, text in enumerate(summaries, 1)),
    ]


async def test_a_ticket_takes_the_route_of_its_topic(play):
    """One of three nodes answers, and what no route names goes to people."""
    taken: list[list[str]] = []
    for command in commands("support_triage")[:3]:
        events = await play(command)
        nodes = [event.node_info.path.rpartition("/")[2].partition("@")[0] for event in events]
        taken.append(nodes)
        assert events[-1].output["sent"]
    assert taken == [
        ["classify", "triage", "billing", "send"],
        ["classify", "triage", "technical", "send"],
        ["classify", "triage", "queue", "send"],
    ]
