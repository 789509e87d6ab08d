"""Code in a container; ``docker`` is a script that starts the launcher without one."""

import ast
import asyncio
import json
import sys
from pathlib import Path

import pytest

from durable_adk.code_executors import CodeExecutorError, CodeLimits, ContainerCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, File
from tests.support.waiting import until

DOCKER = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] != "run":
    sys.exit()
{body}
"""
LAUNCH = "os.execv(sys.executable, [sys.executable, *sys.argv[-4:]])"


class Docker:
    """The script, and what it was called with."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.runs(LAUNCH)

    def runs(self, body: str) -> None:
        """Say what ``docker run`` does."""
        script = self._folder / "docker"
        script.write_text(DOCKER.format(python=sys.executable, log=self._log, body=body))
        script.chmod(0o755)

    @property
    def _log(self) -> str:
        return str(self._folder / "log")

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in Path(self._log).read_text().splitlines()]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    """A ``docker`` that is the only program on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return Docker(tmp_path)


def executor(**fields) -> ContainerCodeExecutor:
    return ContainerCodeExecutor(image="python:3.13-slim", **fields)


async def test_code_files_and_results_go_through_the_container(docker: Docker) -> None:
    """FLW-90: nothing is mounted; what the code made comes back on the container's output."""
    work = CodeExecutionInput(
        "print(open('a.txt').read()); open('b.txt', 'w').write('out')",
        [File("a.txt", b"in")],
        "i.3",
    )
    result = await executor().execute_code(None, work)
    assert (result.stdout, result.exit_code) == ("in\n", 0)
    assert result.output_files == [File("b.txt", b"out", "text/plain")]
    assert [call[0] for call in docker.calls] == ["run"]


async def test_the_command_line_gives_the_code_nothing(docker: Docker) -> None:
    """S20: no network, no writable system, no privileges, bounded memory, time and processes."""
    limits = CodeLimits(memory=512_000_000, file_size=8_000_000, output_files_size=2_000_000)
    await executor(limits=limits).execute_code(None, CodeExecutionInput("1", execution_id="i.3"))
    (call,) = docker.calls
    name = call[call.index("--name") + 1]
    assert name.startswith("durable-adk-code-")
    source = call.pop()
    assert call == (
        f"run --rm --interactive --pull never --name {name} --label durable-adk.execution=i.3 "
        "--network none --read-only --log-driver none "
        "--tmpfs /tmp:rw,noexec,nosuid,nodev,mode=1777,size=10000000 "
        "--workdir /tmp --user 65534:65534 --cap-drop ALL --security-opt no-new-privileges "
        "--memory 512000000 --memory-swap 512000000 --cpus 1 --pids-limit 64 "
        "--entrypoint python python:3.13-slim -I -S -c"
    ).split(" ")
    ast.parse(source, feature_version=(3, 8))


async def test_every_attempt_has_a_container_of_its_own(docker: Docker) -> None:
    """A second attempt must not fail because the first one's container still has its name."""
    for _ in range(2):
        await executor().execute_code(None, CodeExecutionInput("1", execution_id="i.3"))
    assert len({call[call.index("--name") + 1] for call in docker.calls}) == 2


async def test_without_docker_the_error_says_so(tmp_path: Path, monkeypatch) -> None:
    """The run fails with what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CodeExecutorError, match=r"Cannot run 'docker': .*installed and on PATH"):
        await executor().execute_code(None, CodeExecutionInput("1"))


@pytest.mark.parametrize("code", [125, 126, 127])
async def test_what_docker_refuses_is_an_error(docker: Docker, code: int) -> None:
    """No daemon, no image, no Python: the model is not told that its code failed."""
    docker.runs(f"sys.exit(os.write(2, b'No such image') and {code})")
    with pytest.raises(CodeExecutorError, match="docker cannot run the code: No such image"):
        await executor().execute_code(None, CodeExecutionInput("1"))


@pytest.mark.parametrize(
    "body", ["sys.exit(137)", "print('no reply'); sys.exit(137)", "print('{}')"]
)
async def test_a_container_that_says_nonsense_is_a_failure_of_the_code(
    docker: Docker, body: str
) -> None:
    """The code can end the launcher and write in its name; nothing of that is believed."""
    docker.runs(body)
    result = await executor().execute_code(None, CodeExecutionInput("1"))
    assert result.failed
    assert "ended from outside" in result.stderr


async def test_a_container_that_never_ends_is_removed(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S16: endless output and a deaf client cost their time and no memory."""
    monkeypatch.setattr("durable_adk.code_executors.container_code_executor.START_UP", 0.5)
    monkeypatch.setattr("durable_adk.code_executors._launch._GRACE", 0.2)
    docker.runs("while True: os.write(1, b'x' * 65536)")
    with pytest.raises(CodeExecutorError, match=r"docker gave no answer in 0\.6 s"):
        await executor(timeout_seconds=0.1).execute_code(None, CodeExecutionInput("1"))
    assert docker.calls[-1][:2] == ["rm", "--force"]


async def test_cancellation_removes_the_container(docker: Docker, tmp_path: Path) -> None:
    """A daemon keeps containers whose client was killed, so they are removed explicitly."""
    code = f"open({str(tmp_path / 'up')!r}, 'w'); import time; time.sleep(3600)"
    task = asyncio.ensure_future(executor().execute_code(None, CodeExecutionInput(code)))
    await until((tmp_path / "up").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    run, remove = docker.calls
    assert remove == ["rm", "--force", run[run.index("--name") + 1]]
