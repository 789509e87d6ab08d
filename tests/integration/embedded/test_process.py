import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from durable_adk.embedded.process import Process
from durable_adk.errors import DurableAdkError
from tests.support.waiting import until

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {}time.sleep(3600)"
PARENT = """
import asyncio, sys
from pathlib import Path
from durable_adk.embedded.process import Process

async def main():
    child = await Process.start([sys.executable, "-c", {code!r}], log=Path({log!r}), grace=0.3)
    print(child.pid, flush=True)
    await child.wait()

asyncio.run(main())
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


async def until_logged(process: Process, text: str) -> None:
    await until(lambda: text in process.log.read_text())


async def test_output_and_exit_code_are_kept(tmp_path):
    """What a child prints is in its log, and its exit code is ours to see."""
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    process = await Process.start(python(code), log=tmp_path / "new" / "log")
    assert await process.wait() == 3
    assert sorted(process.log.read_text().split()) == ["err", "out"]


async def test_a_log_is_continued(tmp_path):
    """A restarted child does not erase what the one before it had to say."""
    for word in ("first", "second"):
        process = await Process.start(python(f"print({word!r})"), log=tmp_path / "log")
        await process.wait()
    assert (tmp_path / "log").read_text().split() == ["first", "second"]


async def test_environment_and_folder(tmp_path):
    """A child has our variables and its own on top, and runs in the folder that is passed."""
    code = "import os; print(os.environ['PATH'] != '', os.environ['EXTRA'], os.getcwd())"
    process = await Process.start(
        python(code), log=tmp_path / "log", env={"EXTRA": "yes"}, cwd=tmp_path
    )
    await process.wait()
    assert process.log.read_text().split() == ["True", "yes", str(tmp_path.resolve())]


async def test_terminate_lets_the_child_finish(tmp_path):
    """A child that handles SIGTERM ends in its own way."""
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit('bye')); "
        "print('up', flush=True); time.sleep(3600)"
    )
    process = await Process.start(python(code), log=tmp_path / "log")
    await until_logged(process, "up")
    assert await process.terminate() == 1
    assert "bye" in process.log.read_text()


async def test_terminate_has_the_last_word(tmp_path):
    """A child that ignores SIGTERM is killed when the grace is over, also if nobody waits."""
    up = STUBBORN.format("print('up', flush=True); ")
    process = await Process.start(python(up), log=tmp_path / "log", grace=0.3)
    await until_logged(process, "up")
    stopping = asyncio.create_task(process.terminate())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await process.wait() == 128 + signal.SIGKILL
    assert not is_alive(process.pid)


async def test_kill_reaches_what_the_child_started(tmp_path):
    """After a kill neither the child nor a process of its own runs."""
    inner = STUBBORN.format("")
    code = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {inner!r}]); "
        "print(p.pid, flush=True); p.wait()"
    )
    process = await Process.start(python(code), log=tmp_path / "log")
    await until_logged(process, "\n")
    grandchild = int(process.log.read_text())
    assert await process.kill() == 128 + signal.SIGKILL
    await until(lambda: not is_alive(grandchild))


async def test_signals_reach_the_child(tmp_path):
    """A signal goes to the child, and to nobody once it has ended."""
    process = await Process.start(python("import time; time.sleep(3600)"), log=tmp_path / "log")
    process.send_signal(signal.SIGUSR1)
    assert await process.wait() == 128 + signal.SIGUSR1
    process.send_signal(signal.SIGUSR1)
    assert await process.kill() == 128 + signal.SIGUSR1


async def test_the_terminal_does_not_reach_the_child(tmp_path):
    """A child is in a session of its own, so Ctrl-C is for its parent alone."""
    async with await Process.start(
        python("import time; time.sleep(3600)"), log=tmp_path / "log"
    ) as process:
        assert os.getsid(process.pid) != os.getsid(0)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_a_child_does_not_outlive_its_parent(tmp_path, end):
    """When the parent is gone, however it went, the child ends, even if it ignores SIGTERM."""
    log = tmp_path / "log"
    code = PARENT.format(code=STUBBORN.format("print('up', flush=True); "), log=str(log))
    parent = await asyncio.create_subprocess_exec(*python(code), stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    await until(lambda: "up" in log.read_text())
    parent.send_signal(end)
    await parent.wait()
    await until(lambda: not is_alive(child))


async def test_a_program_that_cannot_run_is_named(tmp_path):
    """A missing program is an error that names it and the log."""
    with pytest.raises(DurableAdkError, match=r"no-such-program; .*log"):
        await Process.start(["no-such-program"], log=tmp_path / "log")
    assert "FileNotFoundError" in (tmp_path / "log").read_text()
