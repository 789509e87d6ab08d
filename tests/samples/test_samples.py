"""Projects as google-adk's users write them: as they are, and with the root of imports changed."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from tests.adk.compare import differences
from tests.samples.talks import TALKS, Answer, Talk
from tests.stubs.anthropic_stub import AnthropicStub
from tests.stubs.gemini_stub import GeminiStub
from tests.stubs.openai_stub import OpenAIStub
from tests.support.commands import ROOT, Terminal
from tests.support.forked_program import forked_program
from tests.support.required import interpreter

PROJECTS = ROOT / "tests" / "samples" / "projects"
NAMES = sorted(
    folder.name
    for folder in PROJECTS.iterdir()
    if (folder / "agent.py").exists() or (folder / "root_agent.yaml").exists()
)
BESIDE = {"city_brief", "word_stats"}
"""Those with agents or nodes side by side, which are done in any order."""
WANT_ADK = {"converter", "pet_store", "proofreader", "reception"}
"""Those with models, tools and files that only google-adk has; with it, they may be ported, too."""
STUBS: dict[str, Any] = {
    "GOOGLE_GEMINI_BASE_URL": GeminiStub,
    "LOCAL_LLM_BASE": OpenAIStub,
    "ANTHROPIC_BASE_URL": AnthropicStub,
}
IMPORTED_THERE = ("google.adk.cli.cli", "google.adk.runners", "google.adk.agents.llm_agent")
KEY = "GOOGLE_API_KEY=PASTE_YOUR_KEY_HERE\nANTHROPIC_API_KEY=PASTE_YOUR_KEY_HERE\n"


def copy(folder: Path, *, ported: bool) -> None:
    """Copy all samples into a folder with a `.env` file, with the root of the imports changed."""
    for source in PROJECTS.rglob("*"):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        text = source.read_text()
        target = folder / source.relative_to(PROJECTS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("google.adk", "durable_adk") if ported else text)
        if source.name == ".env.example":
            target.with_name(".env").write_text(text)
    (folder / ".env").write_text(KEY)


@pytest.fixture(scope="module")
async def original(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """The samples as they are, with a Temporal server that stays up for all of them."""
    folder = tmp_path_factory.mktemp("original")
    copy(folder, ported=False)
    async with TemporalServer.start(data_dir=folder / ".durable-adk", headless=True):
        yield folder


@pytest.fixture(scope="module")
async def ported(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """The samples after the port, with another server."""
    folder = tmp_path_factory.mktemp("ported")
    copy(folder, ported=True)
    async with TemporalServer.start(data_dir=folder / ".durable-adk", headless=True):
        yield folder


@asynccontextmanager
async def model(talk: Talk) -> AsyncIterator[dict[str, str]]:
    """The model behind its wire; the variables that lead there."""
    stub = STUBS[talk.wire](script=talk.script or talk.reply)
    await stub.start()
    try:
        yield {talk.wire: stub.url}
    finally:
        await stub.close()


@contextmanager
def server(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """What the project calls, if it comes with it; the variable that leads there."""
    variable = TALKS[name].server
    if not variable:
        yield {}
        return
    command = [sys.executable, str(folder / name / "server.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield {variable: process.stdout.readline().strip()}
        finally:
            process.terminate()


def lines(talk: Talk, *, here: bool) -> str:
    """What a user types, line by line."""
    typed = [
        (each.here if here else each.there) if isinstance(each, Answer) else each
        for each in talk.typed
    ]
    # A secret is read to the end of the input, which ends our chat, too.
    return "".join(f"{line}\n" for line in typed) + ("" if here else "exit\n")


def events(printed: str) -> list[Event]:
    """The events in a program's output, between prompts and what the agents print."""
    found = (line[line.find('{"') :] for line in printed.splitlines() if '"invocation' in line)
    return [Event.model_validate(_known(json.loads(line))) for line in found]


def _known(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("session_id", "node_path")}


def telling(events: list[Event]) -> dict[str, Any]:
    """Events as google-adk's comparison takes what came of a conversation."""
    turn = {"events": [json.loads(event.model_dump_json(exclude_none=True)) for event in events]}
    return {"turns": [turn], "kept": {}, "requests": [], "hooks": []}


async def run_here(folder: Path, name: str, python: Path, more: dict[str, str]) -> list[Event]:
    """Type a talk into `durable-adk run`."""
    terminal = Terminal(folder, python)
    async with model(TALKS[name]) as env:
        typed = lines(TALKS[name], here=True)
        done = await asyncio.to_thread(
            terminal.run, "run", name, "--json", stdin=typed, **env, **more
        )
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr
    return events(done.stdout)


async def run_there(folder: Path, name: str, more: dict[str, str]) -> list[Event]:
    """Type it into `adk run`."""
    program = forked_program(str(interpreter("adk")), "google.adk.cli:main", *IMPORTED_THERE)
    async with model(TALKS[name]) as env:
        done = await asyncio.to_thread(
            program.run,
            ["adk", "run", name, "--jsonl", "--in_memory"],
            cwd=folder,
            env=Terminal(folder).env | env | more,
            stdin=lines(TALKS[name], here=False),
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return events(done.stdout)


async def google(folder: Path, command: list[Any], env: dict[str, str]) -> str:
    """What a command of google-adk's environment prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        cwd=folder,
        env=Terminal(folder).env | {"PYTHONPATH": ""} | env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_sample_has_its_talk() -> None:
    """And none is left out."""
    assert sorted(TALKS) == NAMES


@pytest.mark.thorough
@pytest.mark.sampled(12)
@pytest.mark.parametrize("environment", [".", "adk"])
async def test_samples_load_after_a_change_of_the_root_of_their_imports(
    environment: str, tmp_path: Path
) -> None:
    """Nothing of what they import or set is missing, with and without google-adk."""
    copy(tmp_path, ported=True)
    names = [name for name in NAMES if environment == "adk" or name not in WANT_ADK]
    load = "import sys; from durable_adk.cli.server import load_app"
    code = f"{load}; print([load_app(name).name for name in sys.argv[1:]])"
    command = [interpreter(environment), "-c", code, *names]
    terminal = Terminal(tmp_path)
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, env=terminal.env, capture_output=True, text=True
    )
    assert done.stdout == f"{names}\n", done.stderr


@pytest.mark.thorough
@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", NAMES)
async def test_a_sample_says_here_what_it_says_there(name: str, original: Path, ported: Path):
    """On Temporal, as it is and with the imports changed: google-adk's events, field by field."""
    talk = TALKS[name]
    with server(name, original) as more:
        runs = [run_there(original, name, more), run_here(original, name, interpreter("adk"), more)]
        if name not in WANT_ADK:
            runs.append(run_here(ported, name, Path(sys.executable), more))
        theirs, *both = await asyncio.gather(*runs)
    beside = name in BESIDE
    found = set[str]()
    for ours in both:
        says = [f"{event.author}: {event.text}" for event in ours if event.text]
        assert (sorted(says[:2]) + says[2:] if name == "city_brief" else says) == talk.says
        unequal = differences(telling(ours), telling(theirs), by_agent=beside)
        found |= {difference.kind for difference in unequal}
    assert sorted(found) == sorted(kind for kinds in talk.declared.values() for kind in kinds)


@pytest.mark.thorough
@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("name", "module", "last"),
    [
        ("dice_roller", "dice_roller.main", "Goodbye."),
        ("story_flow", "story_flow.run", "}"),
    ],
)
async def test_a_program_prints_here_what_it_prints_there(
    name: str, module: str, last: str, original: Path, ported: Path
) -> None:
    """A sample's own program, with its `Runner` in process."""
    terminal = Terminal(ported)
    async with model(TALKS[name]) as env:
        ours = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", module],
            cwd=ported,
            env=terminal.env | env,
            capture_output=True,
            text=True,
            timeout=300,
        )
        theirs = await google(original, [interpreter("adk"), "-m", module], env)
    assert ours.stdout == theirs, ours.stderr
    assert theirs.splitlines()[-1] == last
