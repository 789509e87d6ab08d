"""A code executor that uses a separate process on the same machine."""

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
from durable_adk.settings import FiniteSeconds


class SubprocessCodeExecutor(BaseCodeExecutor):
    """Runs code in a separate Python process. This is **not a security boundary**.

    The process gets an empty folder, no input, an environment without the worker's variables, and
    limits on time, memory, file size and output. Its process group is killed when it exits or the
    worker dies. This protects against mistakes but not against malicious code: the code runs as
    the worker's user, so it can read that user's files, use the network and leave its process
    group. Use this executor only with models and users that you trust as you trust yourself;
    otherwise use `ContainerCodeExecutor` (S20).

    The packages of the worker's environment can be imported. Regular files that the code leaves in
    its folder, excluding subfolders, become artifacts.
    """

    allow_unsafe: bool = Field(default=False, exclude=True, validate_default=True)
    """Must be True, to confirm that you have read the warning above."""
    stateful: Stateless = False
    """Always False: each execution uses a new process."""
    timeout_seconds: FiniteSeconds | None = Field(default=30.0, gt=0)
    """Time limit in seconds; None means 300."""
    limits: CodeLimits = CodeLimits()

    @field_validator("allow_unsafe")
    @classmethod
    def _require_opt_in(cls, value: bool) -> bool:
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
        """Run code in a new process.

        Raises:
            CodeExecutorError: The process could not be started.
        """
        del invocation_context
        return await launch(
            [sys.executable, "-I", "-S", str(LAUNCHER)],
            code_execution_input,
            # The code can read the launcher's environment too.
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "TMPDIR": tempfile.gettempdir()},
            seconds=self._seconds,
            limits=self.limits,
            memory=self.limits.memory,
            start_up=START_UP - 10.0,  # below `attempt_timeout`, so that this one reports the cause
        )

    @property
    def _seconds(self) -> float:
        return self.timeout_seconds or LONGEST
