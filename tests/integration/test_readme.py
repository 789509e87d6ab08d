"""The documents: what they show runs, and what they name exists."""

import asyncio
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from durable_adk.cli.program import app
from durable_adk.embedded.process import Process
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLES = ROOT.glob("examples/*/*.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *EXAMPLES])
COMMANDS, INDEX = ROOT / "docs" / "start" / "commands.md", ROOT / "docs" / "README.md"
DURABILITY = ROOT / "docs" / "know" / "durability.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    """A document as pytest shows it."""
    return str(path.relative_to(ROOT))


def blocks(language: str) -> list[str]:
    """The README's code in a language."""
    found = [code for kind, code in FENCE.findall(README.read_text()) if kind == language]
    assert found, f"the README has no {language} any more"
    return found


def command_line(*arguments: str) -> str:
    """What `durable-adk` prints."""
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, (arguments, result.output)
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@cache
def help_of(*command: str) -> str:
    """The help of a command."""
    return command_line(*command, "--help")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each `durable-adk` command of a document, with its options; of a group, "group command"."""
    shell = text.replace("\\\n", " ")
    # A command ends with its line or its quotation mark, or where the prose about it begins.
    pattern = r"durable-adk (schedule [a-z]+|[a-z][\w-]*)([^`\n]*)"
    for command, rest in re.findall(pattern, shell):
        yield command, re.findall(r"(?<!\S)(--[a-z][a-z-]*)", rest)


def table(head: str) -> list[str]:
    """The rows of the table of docs/know/durability.md whose first column is `head`."""
    rows = DURABILITY.read_text().partition(f"| {head} | ")[2].partition("\n\n")[0]
    return rows.splitlines()[2:]


def test_what_is_shown_of_a_check_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Word by word."""
    monkeypatch.chdir(ROOT)
    told = command_line("check", "examples/capital_agent")
    printed = "\n".join(line.rstrip() for line in told.splitlines()) + "\n"
    assert ("text", printed) in FENCE.findall(COMMANDS.read_text())


@pytest.mark.thorough
@pytest.mark.parametrize("code", blocks("python"))
async def test_the_readmes_python_runs_as_it_stands(code: str, tmp_path: Path) -> None:
    """In an empty folder, with nothing but the package, it prints what the README says."""
    program, log = tmp_path / "program.py", tmp_path / "output"
    program.write_text(code)
    folder = tmp_path / "empty"
    folder.mkdir()
    env = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "DURABLE_ADK_DATA_DIR": "data"}
    async with await Process.start(
        [sys.executable, program], log=log, cwd=folder, env=env
    ) as process:
        exit_code = await asyncio.wait_for(process.wait(), PATIENCE)
    printed = log.read_text().strip()
    assert exit_code == 0, printed
    assert f"It prints `{printed}`" in README.read_text()


def known_commands() -> set[str]:
    """The commands that the help lists."""
    return set(re.findall(r"^│ (\w[\w-]*) ", help_of(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_commands_a_document_names_exist(document: Path) -> None:
    """Each `durable-adk` command is in the help, and has the options it is shown with."""
    known = known_commands()
    for command, options in commands(document.read_text()):
        assert command.split()[0] in known, command
        offered = set(re.findall(r"--[a-z][a-z-]*", help_of(*command.split())))
        assert set(options) <= offered, command


def test_every_command_is_described() -> None:
    """In docs/start/commands.md."""
    assert known_commands() == {command.split()[0] for command, _ in commands(COMMANDS.read_text())}


def test_every_page_answers_a_question() -> None:
    """docs/README.md lists each page once, and the README is short."""
    listed = re.findall(r"\]\(([\w-]+/[\w-]+\.md)\)", INDEX.read_text())
    pages = [path.relative_to(INDEX.parent).as_posix() for path in INDEX.parent.glob("*/*.md")]
    assert sorted(listed) == sorted(pages)
    lines = README.read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_make_verbs_a_document_names_exist(document: Path) -> None:
    """`make` knows each of them."""
    verbs = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    shown = "\n".join(code for _, code in FENCE.findall(text))
    named = re.findall(r"^make ((?:[a-z]+ ?)+)", shown, re.MULTILINE)
    named += re.findall(r"`make ((?:[a-z]+ ?)+)", FENCE.sub("", text))
    assert {verb for group in named for verb in group.split()} <= verbs


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    """Every relative link is a file or folder of the repository."""
    prose = FENCE.sub("", document.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" not in target:
            assert (document.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_tests_a_document_names_exist(document: Path) -> None:
    """A promise leads to the test that shows it, also when the test is renamed."""
    text = document.read_text()
    for path, test in re.findall(r"`(?:tests/)?([\w/]+\.py)::(\w+)`", text):
        file = ROOT / "tests" / path
        assert file.is_file(), path
        assert re.search(rf"^(async )?def {test}\(", file.read_text(), re.MULTILINE), (
            f"{path}::{test}"
        )
    for path in re.findall(r"(?:tests/)?((?:unit|integration|chaos)/[\w/]*\w\.py)", text):
        assert (ROOT / "tests" / path).is_file(), path


def test_every_guarantee_names_a_test() -> None:
    """Every row of the guarantees table in docs/know/durability.md names a test."""
    rows = table("guarantee")
    assert len(rows) > 20
    assert all("::test_" in row for row in rows)


def test_every_threat_has_its_row() -> None:
    """S1 to S29: what is done against it and which test shows that, or why it cannot come."""
    text = (ROOT / "SECURITY.md").read_text()
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| S")]
    assert [cells[0].strip() for cells in rows] == [f"S{number}" for number in range(1, 30)]
    assert all(".py`" in cells[3] for cells in rows)


def test_every_failpoint_is_described() -> None:
    """docs/know/durability.md lists the failpoints that the package has, no others."""
    sources = "".join(path.read_text() for path in (ROOT / "durable_adk").rglob("*.py"))
    described = re.findall(r"`([\w.]+)`", "".join(table("failpoint")))
    assert set(described) == set(re.findall(r'failpoint\("(.+?)"', sources))
