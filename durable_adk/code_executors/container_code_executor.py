"""A code executor that uses containers."""

import asyncio
import contextlib
import os
import uuid

from pydantic import Field

from durable_adk.calling.closing import uninterrupted
from durable_adk.code_executors._launch import LAUNCHER, launch
from durable_adk.code_executors.base_code_executor import LONGEST, BaseCodeExecutor, Stateless
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.code_executors.code_limits import CodeLimits
from durable_adk.context.activity import CallbackContext
from durable_adk.settings import FiniteSeconds

START_UP = 60.0
"""Seconds that a container may take to start and stop."""
_LAUNCHER = LAUNCHER.read_text(encoding="utf-8")


class ContainerCodeExecutor(BaseCodeExecutor):
    """Runs code in a disposable container without network access (S20).

    The image must exist on the machine (it is never pulled) and contain Python 3.8 or newer. The
    code runs unprivileged, with a read-only file system, an empty temporary folder, and the
    resources in `limits`. The strength of the isolation depends on the container runtime.

    Nothing of the worker's file system is mounted: code, files and results pass through the
    container's standard input and output, so a Docker daemon on another machine works too.
    ``docker`` may be the CLI of Docker or Podman.
    """

    image: str = Field(min_length=1, pattern=r"^[^-\s]\S*$")
    """For example ``python:3.13-slim``, better with a digest."""
    docker: str = "docker"
    """Name or path of the command."""
    python: str = "python"
    """Name or path of the interpreter in the image."""
    user: str = "65534:65534"
    """User and group in the container; the default is ``nobody``."""
    cpus: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    processes: int = Field(default=64, gt=0)
    """Maximum number of processes and threads."""
    stateful: Stateless = False
    """Always False: each execution uses a new container."""
    timeout_seconds: FiniteSeconds | None = Field(default=30.0, gt=0)
    """Time limit in seconds, excluding the container's startup; None means 300."""
    limits: CodeLimits = CodeLimits()

    @property
    def attempt_timeout(self) -> float:
        """See `BaseCodeExecutor.attempt_timeout`."""
        return self._seconds + 1.5 * START_UP  # includes the container's removal

    async def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run code in a new container.

        Raises:
            CodeExecutorError: ``docker``, its daemon, the image, or Python in the image is missing.
        """
        del invocation_context
        # Unique per attempt: an attempt presumed dead may still hold its container's name.
        name = f"durable-adk-code-{uuid.uuid4().hex}"
        execution_id = code_execution_input.execution_id or ""
        try:
            return await launch(
                self.command(name=name, execution_id=execution_id),
                code_execution_input,
                env=os.environ,  # for the client, to find its daemon; a container inherits nothing
                seconds=self._seconds,
                limits=self.limits,
                memory=None,
                start_up=START_UP,
            )
        except BaseException:
            await uninterrupted(self._remove(name))
            raise

    @property
    def _seconds(self) -> float:
        return self.timeout_seconds or LONGEST

    def command(self, *, name: str, execution_id: str) -> list[str]:
        """Return the command line of one execution.

        Args:
            name: Unique name of the container.
            execution_id: Id of the execution, added as a label for people who inspect containers.
        """
        memory = str(self.limits.memory)
        scratch = self.limits.file_size + self.limits.output_files_size
        return [
            *(self.docker, "run", "--rm", "--interactive", "--pull", "never"),
            *("--name", name, "--label", f"durable-adk.execution={execution_id}"),
            *("--network", "none", "--read-only", "--log-driver", "none"),
            *("--tmpfs", f"/tmp:rw,noexec,nosuid,nodev,mode=1777,size={scratch}"),  # noqa: S108 # in the container
            *("--workdir", "/tmp", "--user", self.user),  # noqa: S108 # in the container
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--memory", memory, "--memory-swap", memory, "--cpus", f"{self.cpus:g}"),
            *("--pids-limit", str(self.processes)),
            *("--entrypoint", self.python, self.image, "-I", "-S", "-c", _LAUNCHER),
        ]

    async def _remove(self, name: str) -> None:
        """Kill and remove the container; a missing one is not an error."""
        null = asyncio.subprocess.DEVNULL
        with contextlib.suppress(OSError, TimeoutError):
            process = await asyncio.create_subprocess_exec(
                *(self.docker, "rm", "--force", name), stdin=null, stdout=null, stderr=null
            )
            try:
                await asyncio.wait_for(process.wait(), 10.0)
            except TimeoutError:
                process.kill()
                await process.wait()
