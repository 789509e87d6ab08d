"""The code executor that is a container."""

import asyncio
import contextlib
import os
import uuid

from pydantic import Field

from durable_adk.closing import uninterrupted
from durable_adk.code_executors._launch import LAUNCHER, launch
from durable_adk.code_executors.base_code_executor import LONGEST, BaseCodeExecutor, Stateless
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.code_executors.code_limits import CodeLimits
from durable_adk.context.activity import CallbackContext

START_UP = 60.0
"""Seconds a container may take to start and to end."""
_LAUNCHER = LAUNCHER.read_text(encoding="utf-8")


class ContainerCodeExecutor(BaseCodeExecutor):
    """Runs code in a container without network, thrown away afterwards (reliability S20).

    The image must be on the machine (it is never pulled) and have Python 3.8 or newer. The code
    sees a read-only system and an empty temporary folder, has no privileges, and may use what
    `limits` says. How strong the wall is, is the container runtime's matter.

    Nothing of the worker's file system is mounted: code, files and results go through the
    container's input and output, so a Docker daemon on another machine does as well. ``docker``
    is the command line of Docker, or of Podman.
    """

    image: str = Field(min_length=1, pattern=r"^[^-\s]\S*$")
    """For example ``python:3.13-slim``, better with a digest."""
    docker: str = "docker"
    """The command, or the path of it."""
    python: str = "python"
    """The interpreter in the image."""
    user: str = "65534:65534"
    """User and group in the container: nobody's."""
    cpus: float = Field(default=1.0, gt=0)
    processes: int = Field(default=64, gt=0)
    """Processes and threads."""
    stateful: Stateless = False
    """Never: each execution is a new container."""
    timeout_seconds: float | None = Field(default=30.0, gt=0)
    """Seconds, without the container's start; None: 300."""
    limits: CodeLimits = CodeLimits()

    @property
    def attempt_timeout(self) -> float:
        """See `BaseCodeExecutor.attempt_timeout`."""
        return self._seconds + 1.5 * START_UP  # its removal as well

    async def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run some code.

        Raises:
            CodeExecutorError: There is no ``docker``, no daemon, no such image, or no Python in it.
        """
        del invocation_context
        # Of this attempt alone: one that is taken for dead may still run, and names are unique.
        name = f"durable-adk-code-{uuid.uuid4().hex}"
        execution_id = code_execution_input.execution_id or ""
        try:
            return await launch(
                self.command(name=name, execution_id=execution_id),
                code_execution_input,
                env=os.environ,  # the client's, to find its daemon; a container inherits nothing
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
        """The command line of one execution.

        Args:
            name: The container's, unique.
            execution_id: For people who look at the containers: the execution's, as a label.
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
        """Make sure that nothing runs on; a container that is gone already is no error."""
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
