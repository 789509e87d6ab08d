"""Runs a program's commands in processes forked from one that has imported it.

Starting Python and importing the SDKs takes seconds of processor time, and tests run a hundred
commands to their end. Commands that a test starts, watches and kills are processes of their own.
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

Command = dict[str, Any]
"""``argv``, ``cwd``, ``env``, the text ``stdin``, and the paths ``stdout`` and ``stderr``."""


class ForkedProgram:
    """A process that waits for commands, for as long as this one lives.

    Args:
        python: The interpreter.
        main: The program's function, as ``module:function``.
        imports: What else it imports before the first command.
    """

    def __init__(self, python: str, main: str, *imports: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forked-")
        self._address = f"{self._folder.name}/socket"
        arguments = ["-P", "-m", __name__, self._address, main, *imports]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [python, *arguments],
            env=os.environ | {"PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,  # it ends at the end of this pipe
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n", "the program cannot be imported"

    def run(
        self, arguments: list[str], *, cwd: Path, env: dict[str, str], stdin: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            files = {name: f"{folder}/{name}" for name in ("stdout", "stderr")}
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(timeout)
                connection.connect(self._address)
                command = {"argv": arguments, "cwd": str(cwd), "env": env, "stdin": stdin}
                connection.sendall(json.dumps(command | files).encode() + b"\n")
                with connection.makefile() as answers:
                    pid = int(answers.readline())
                    try:
                        code = int(answers.readline())
                    except TimeoutError:
                        os.kill(pid, signal.SIGKILL)
                        raise
            printed = [Path(files[name]).read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(arguments, code, *printed)


@cache
def forked_program(python: str, main: str, *imports: str) -> ForkedProgram:
    """Return the only one of its arguments in this process."""
    return ForkedProgram(python, main, *imports)


def _serve(address: str, main: str, *imports: str) -> None:
    module, _, function = main.partition(":")
    program = getattr(importlib.import_module(module), function)
    for name in imports:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(16)
        os.write(1, b"ready\n")
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            connection = server.accept()[0]
            if os.fork() == 0:
                server.close()
                _answer(connection, program)
            connection.close()


def _answer(connection: socket.socket, program: Any) -> None:
    """Run a command in another process, say its id and its exit code, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile() as orders:
        command: Command = json.loads(orders.readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(command, program)
    connection.sendall(f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall(f"{code}\n".encode())
    os._exit(0)


def _become(command: Command, program: Any) -> None:
    os.setsid()
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    typed, keyboard = os.pipe()
    os.write(keyboard, command["stdin"].encode())  # a pipe holds 64 KiB
    os.close(keyboard)
    os.dup2(typed, 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(command[name], os.O_WRONLY | os.O_CREAT, 0o600), number)
    sys.argv = command["argv"]
    code: object = 1
    try:
        code = program()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
