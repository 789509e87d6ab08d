"""The code executor that is a separate process of this machine."""

import os
import sys
import tempfile

from pydantic import Field, field_validator

from durable_adk.code_executors._launch import LAUNCHER, launch
from durable_adk.code_executors.base_code_executor import (
    LONGEST,
    START_UP,
    BaseCodeExecutor,
    Stateless,
)
from durable_adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult
from durable_adk.code_executors.code_limits import CodeLimits
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import AgentDefinitionError


class SubprocessCodeExecutor(BaseCodeExecutor):
    """Runs code in a Python process of its own, but it is **no security boundary**.

    The process has an empty folder, no input, an environment without the worker's variables, and
    limits on time, memory, file size and output; when it ends, or the worker does, its process
    group ends. That guards against mistakes. It does not guard against malice: the code runs as the
    worker's user, so it can read what that user can read, reach the network and leave its process
    group. Use it with models and users you trust as you trust yourself, and
    `ContainerCodeExecutor` otherwise (reliability S20).

    The packages of the worker's environment can be imported. Plain files that the code leaves in
    its folder, not below it, become artifacts.
    """

    allow_unsafe: bool = Field(default=False, exclude=True, validate_default=True)
    """Must be True: that you have read the above."""
    stateful: Stateless = False
    """Never: each execution is a new process."""
    timeout_seconds: float | None = Field(default=30.0, gt=0)
    """Seconds; None: 300."""
    limits: CodeLimits = CodeLimits()

    @field_validator("allow_unsafe")
    @classmethod
    def _is_asked_for(cls, value: bool) -> bool:
        if not value:
            raise AgentDefinitionError(
                "SubprocessCodeExecutor runs what a model writes as your own user, which is no "
                "security boundary. Use ContainerCodeExecutor, or pass allow_unsafe=True."
            )
        return value

    @property
    def attempt_timeout(self) -> float:
        """See `BaseCodeExecutor.attempt_timeout`."""
        return self._seconds + START_UP

    async def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """Run some code.

        Raises:
            CodeExecutorError: No process could be started.
        """
        del invocation_context
        return await launch(
            [sys.executable, "-I", "-S", str(LAUNCHER)],
            code_execution_input,
            # The launcher's environment can be read by the code as well.
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "TMPDIR": tempfile.gettempdir()},
            seconds=self._seconds,
            limits=self.limits,
            memory=self.limits.memory,
            start_up=START_UP - 10.0,  # so that this limit is first, and says what happened
        )

    @property
    def _seconds(self) -> float:
        return self.timeout_seconds or LONGEST
