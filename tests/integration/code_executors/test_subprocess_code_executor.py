"""Code in a process of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_adk.code_executors import CodeExecutorError, CodeLimits, SubprocessCodeExecutor
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from tests.support.waiting import PATIENCE, until

ROOT = Path(__file__).parents[3]


async def run(code: str, *files: File, seconds: float = 600, **limits) -> CodeExecutionResult:
    executor = SubprocessCodeExecutor(
        allow_unsafe=True, timeout_seconds=seconds, limits=CodeLimits(**limits)
    )
    return await executor.execute_code(None, CodeExecutionInput(code, list(files)))


async def until_gone(pid: int) -> None:
    """Wait for the end of a process; one that nobody reaps has ended too."""
    await until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def pids(path: Path, count: int) -> list[int]:
    """The ids that the code wrote to a file, once they are there."""
    await until(lambda: len(written(path)) >= count)
    return written(path)


def written(path: Path) -> list[int]:
    """The ids that are in the file by now."""
    return list(map(int, path.read_text().split())) if path.exists() else []


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the code's folders are made."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
async def family(tmp_path: Path) -> AsyncIterator[tuple[str, Path]]:
    """Code that starts a child and sleeps, and the file both write their ids to."""
    path = tmp_path / "pids"
    code = (
        "import os, time\n"
        "os.fork()\n"
        f"with open({str(path)!r}, 'a') as file: file.write(f'{{os.getpid()}} ')\n"
        "time.sleep(3600)\n"
    )
    yield code, path
    for pid in written(path):
        if _lives(pid):
            os.kill(pid, signal.SIGKILL)


async def test_code_runs_and_its_outputs_come_back() -> None:
    """FLW-90: standard output, standard error and exit code."""
    result = await run("import sys\nprint('ä')\nprint('w', file=sys.stderr)")
    assert result == CodeExecutionResult(stdout="ä\n", stderr="w\n", exit_code=0)
    failed = await run("print(1)\n1/0")
    assert (failed.stdout, failed.exit_code) == ("1\n", 1)
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")


async def test_files_go_in_and_new_ones_come_out() -> None:
    """Unchanged inputs are no outputs; changed ones and new ones are."""
    result = await run(
        "data = open('a.csv').read()\n"
        "open('b.csv', 'a').write('!')\n"
        "open('out.json', 'w').write(data)",
        File("a.csv", b"1,2"),
        File("b.csv", "YWJj"),
    )
    assert result.output_files == [
        File("b.csv", b"abc!", "text/csv"),
        File("out.json", b"1,2", "application/json"),
    ]


async def test_it_starts_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """S14: empty folder, no input, no arguments, none of the worker's variables or modules."""
    monkeypatch.setenv("CANARY_KEY", "canary-3141")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    result = await run(
        "import os, sys\n"
        "print(os.listdir(), sys.argv[1:], repr(sys.stdin.read()), sys.flags.isolated)\n"
        "print(dict(os.environ), open(f'/proc/{os.getppid()}/environ').read())\n"
        "try: import durable_adk.errors\n"
        "except ImportError: print('none')"
    )
    assert result.stdout.startswith("[] [] '' 1\n")
    assert "canary" not in result.stdout
    assert "CANARY_KEY" not in result.stdout


async def test_each_execution_is_new(scratch: Path) -> None:
    """Nothing of one is there for the next, and nothing is left on the disk."""
    await run("open('a', 'w').write('x'); import os; os.mkdir('d'); open('d/e', 'w')")
    assert (await run("import os; print(os.listdir('.'))")).stdout == "[]\n"
    assert names(scratch) == []


@pytest.mark.parametrize(
    ("code", "limits", "says"),
    [
        ("x = 'a' * 2_000_000_000", {"memory": 500_000_000}, "MemoryError"),
        ("with open('a', 'w') as f: f.write('a' * 2_000)", {"file_size": 1_000}, "File too large"),
        ("while True: print('x' * 1_000)", {"file_size": 100_000}, "File too large"),
        ("while True: pass", {"seconds": 0.5}, "did not finish in 0.5 seconds"),
        ("print(input())", {}, "EOFError"),
        ("import os; os.abort()", {}, "SIGABRT"),
        ("import os; os.kill(os.getppid(), 9)", {}, "ended from outside (SIGKILL)"),
    ],
)
async def test_what_goes_beyond_its_limits_fails(code: str, limits: dict, says: str) -> None:
    """The result says why, in words a model can act on; it is a result, no error."""
    result = await run(code, **limits)
    assert result.failed
    assert says in result.stderr


async def test_output_is_bounded_and_never_blocks() -> None:
    """S16: the beginning is kept, and what was lost is counted."""
    result = await run("print('x' * 5_000_000)", output=1_000)
    assert result.stdout == "x" * 1_000 + "\n[4999001 more bytes were cut off]"
    assert result.exit_code == 0


async def test_output_files_are_bounded() -> None:
    """S16: the first ones that fit are kept, and the model is told that there were more."""
    code = "for n in 'abcd': open(n, 'w').write(n * 10)"
    two = await run(code, output_files=2)
    assert [file.name for file in two.output_files] == ["a", "b"]
    assert "2 files were left out" in two.stdout
    assert [f.name for f in (await run(code, output_files_size=35)).output_files] == list("abc")
    given = await run("1", File("a", b"x" * 100), output_files=0, output_files_size=10)
    assert given.stdout == ""


async def test_only_plain_files_come_out(tmp_path: Path) -> None:
    """S4: a link could hand out any file of the worker's, and a pipe would never end."""
    secret = tmp_path / "secret"
    secret.write_text("canary-3141")
    result = await run(
        "import os\n"
        f"os.symlink({str(secret)!r}, 'link')\n"
        "os.mkfifo('pipe')\n"
        "os.mkdir('folder')\n"
        "open('.hidden', 'w').write('x')\n"
    )
    assert result.output_files == []
    assert "3 files were left out" in result.stdout


async def test_an_input_file_stays_in_the_folder() -> None:
    """S4: names are no paths."""
    for name in ("../code.py", "/etc/x", "", "..", "a\x00"):
        with pytest.raises(CodeExecutorError, match="plain name"):
            await run("1", File(name, b""))


async def test_the_end_of_time_ends_the_whole_group(family: tuple[str, Path]) -> None:
    """What the code started does not live on."""
    code, path = family
    seconds = 1.0
    while len(written(path)) < 2:  # else the end came before both had begun
        path.unlink(missing_ok=True)
        result = await run(code, seconds=seconds)
        assert "did not finish" in result.stderr
        seconds *= 2
    for pid in written(path):
        await until_gone(pid)


async def test_children_that_are_left_behind_end_with_the_code(family: tuple[str, Path]) -> None:
    """An execution is over when the code is, whoever still holds its output."""
    code, path = family
    async with asyncio.timeout(PATIENCE):
        result = await run(f"import os\nif os.fork():\n  os._exit(0)\n{code}")
    assert result.exit_code == 0
    for pid in written(path):
        await until_gone(pid)


async def test_cancellation_ends_the_code(family: tuple[str, Path]) -> None:
    """A cancelled activity leaves nothing running."""
    code, path = family
    task = asyncio.ensure_future(run(code))
    found = await pids(path, 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pid in found:
        await until_gone(pid)


async def test_the_death_of_the_worker_ends_the_code(
    family: tuple[str, Path], scratch: Path
) -> None:
    """SIGKILL too: code is run again elsewhere, and must not run twice at once for long."""
    code, path = family
    program = (
        "import asyncio\n"
        "from durable_adk.code_executors import SubprocessCodeExecutor\n"
        "from durable_adk.code_executors.code_execution_utils import CodeExecutionInput\n"
        f"work = CodeExecutionInput({code!r})\n"
        "asyncio.run(SubprocessCodeExecutor(allow_unsafe=True).execute_code(None, work))\n"
    )
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=ROOT, env=os.environ | {"TMPDIR": str(scratch)}
    )
    found = await pids(path, 2)
    worker.kill()
    await worker.wait()
    for pid in found:
        await until_gone(pid)
    await until(lambda: not names(scratch))
