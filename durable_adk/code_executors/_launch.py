"""The worker's side of the launcher protocol."""

import asyncio
import base64
import contextlib
import json
import mimetypes
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from durable_adk.calling.closing import uninterrupted
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from durable_adk.code_executors.code_limits import CodeLimits
from durable_adk.errors import CodeExecutorError

LAUNCHER = Path(__file__).with_name("_launcher.py")
_MESSAGES = 4_000
"""Bytes kept of the launcher process's own stderr."""
_SIGNALLED = 128
"""Exit codes from here on, and negative ones, denote a signal; lower ones are start failures."""
_GRACE = 5.0
"""Seconds that the launcher has to exit after its standard input is closed."""


class _Reply(BaseModel):
    """The launcher's output; from a container it is no more trustworthy than the code."""

    stdout: str
    stderr: str
    exit_code: int
    overdue: bool
    files: list[tuple[str, str]]
    left_out: int


async def launch(
    command: Sequence[str],
    work: CodeExecutionInput,
    *,
    env: Mapping[str, str],
    seconds: float,
    limits: CodeLimits,
    memory: int | None,
    start_up: float,
) -> CodeExecutionResult:
    """Run code through a launcher.

    The launcher kills the code however this call ends, including by cancellation or the death of
    this process.

    Args:
        command: Command that starts the launcher.
        work: The code and its files.
        env: The launcher's complete environment.
        seconds: Time limit of the code.
        limits: Resource limits of the code.
        memory: Address space in bytes; None if memory is limited by other means.
        start_up: Additional seconds allowed for the launcher.

    Raises:
        CodeExecutorError: The launcher could not be started, or did not reply.
    """
    job = _job(work, seconds=seconds, limits=limits, memory=memory)
    process = await _started(command, env)
    try:
        async with asyncio.timeout(seconds + start_up):
            reply, messages, _ = await asyncio.gather(
                _read(process.stdout, _most(limits)),
                _read(process.stderr, _MESSAGES),
                _send(process.stdin, job),
            )
            code = await process.wait()
    except TimeoutError:
        raise CodeExecutorError(
            f"{command[0]} gave no answer in {seconds + start_up:g} s, so the code was ended."
        ) from None
    finally:
        await uninterrupted(_end(process))
    result = _result(reply, seconds)
    if result is None and 0 < code < _SIGNALLED:
        stderr_text = messages.decode("utf-8", "replace").strip() or f"exit code {code}"
        raise CodeExecutorError(f"{command[0]} cannot run the code: {stderr_text}")
    return result or _ended_from_outside(code)


def _job(
    work: CodeExecutionInput, *, seconds: float, limits: CodeLimits, memory: int | None
) -> bytes:
    files = [(_plain(file.name), base64.b64encode(file.data).decode()) for file in work.input_files]
    job = limits.model_dump() | {
        "code": work.code.encode("utf-8", "replace").decode(),
        "files": files,
        "seconds": seconds,
        "memory": memory,
    }
    return json.dumps(job).encode() + b"\n"


def _plain(name: str) -> str:
    if not name or name in {".", ".."} or "/" in name or "\x00" in name:
        raise CodeExecutorError(f"The input file {name!r} needs a plain name without a folder.")
    return name


def _most(limits: CodeLimits) -> int:
    """Return the maximum size of a valid reply in bytes: escaped text, base64, names."""
    return 12 * limits.output + 2 * limits.output_files_size + 4_096 * (limits.output_files + 1)


async def _started(command: Sequence[str], env: Mapping[str, str]) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
    except OSError as error:
        raise CodeExecutorError(
            f"Cannot run {command[0]!r}: {error.strerror or error}. Is it installed and on PATH?"
        ) from error


async def _read(stream: asyncio.StreamReader | None, limit: int) -> bytes:
    """Read the stream to its end, and return its first `limit` bytes."""
    kept = bytearray()
    while stream is not None and (chunk := await stream.read(65_536)):
        kept += chunk[: limit - len(kept)]
    return bytes(kept)


async def _send(stream: asyncio.StreamWriter | None, job: bytes) -> None:
    if stream is not None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its exit code says why
            stream.write(job)
            await stream.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the process's standard input, wait for its exit, and kill it if it is too slow."""
    if process.stdin is not None:
        process.stdin.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await process.stdin.wait_closed()
    try:
        await asyncio.wait_for(_drained(process), _GRACE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await _drained(process)


async def _drained(process: asyncio.subprocess.Process) -> None:
    # Read the pipes to the end too, because the transport stays open until then.
    await asyncio.gather(_read(process.stdout, 0), _read(process.stderr, 0), process.wait())


def _result(text: bytes, seconds: float) -> CodeExecutionResult | None:
    try:
        reply = _Reply.model_validate_json(text)
        files = [File(name, base64.b64decode(data), _type(name)) for name, data in reply.files]
    except ValueError:  # from pydantic or base64
        return None
    return CodeExecutionResult(
        stdout=reply.stdout + _left_out(reply.left_out),
        stderr=_stderr(reply, seconds),
        output_files=files,
        exit_code=reply.exit_code,
    )


def _ended_from_outside(code: int) -> CodeExecutionResult:
    """Return the result for a killed launcher; the code or its limits can cause this."""
    return CodeExecutionResult(
        stderr=f"The code was ended from outside ({_meaning(code)}), so nothing is known of it. "
        "It may have used too much memory.",
        exit_code=code or 1,
    )


def _stderr(reply: _Reply, seconds: float) -> str:
    if reply.overdue:
        reason = f"The code did not finish in {seconds:g} seconds and was ended."
    elif reply.exit_code < 0:
        reason = f"The code was ended by {_meaning(reply.exit_code)}."
    else:
        return reply.stderr
    return f"{reply.stderr}\n{reason}" if reply.stderr else reason


def _meaning(code: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(-code if code < 0 else code - 128).name
    return f"exit code {code}"


def _left_out(count: int) -> str:
    return f"\n[{count} files were left out: too many, too large, or no plain files]" * bool(count)


def _type(name: str) -> Any:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
