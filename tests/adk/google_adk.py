"""The process in which google-adk runs what is run here too."""

import contextlib
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.required import ROOT


class GoogleAdk:
    """A process of google-adk's own environment (`google_side`), while its context is open.

    Args:
        python: The environment's interpreter.
        log: The file that gets what it prints.
        module: What it runs.
    """

    def __init__(self, python: Path, log: Path, module: str = "tests.adk.google_side") -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [python, "-m", module],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def ask(self, **order: Any) -> Any:
        """What google-adk makes of an order, as JSON."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then it has no answer either
            print(json.dumps(order), file=self._process.stdin, flush=True)
        try:
            answer = self._process.stdout.readline()
        except BaseException:  # a test's timeout: the next order would get this one's answer
            self._process.kill()
            raise
        assert answer, f"google-adk's process has ended:\n{self._log.read_text()[-4000:]}"
        return json.loads(answer)
