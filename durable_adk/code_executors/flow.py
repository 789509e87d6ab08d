"""Applies a code executor to model requests and responses, and runs the code between them.

A response that contains code is truncated after the code (`code_of`) and stored. Then the code is
run (`execute`); its result becomes a separate event, and the model is called again (FLW-90).
Nothing is kept in memory: the stored event ends with the code to run, and failures are counted in
the state. Every step can therefore be retried by any process.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from google.genai import types

from durable_adk.calling import call, contained
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    CodeExecutionUtils,
    File,
    pending_code,
)
from durable_adk.code_executors.data_files import files_in, named
from durable_adk.context.activity import CallbackContext
from durable_adk.errors import CodeExecutorError, reported_as
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

CONTEXT_KEY = "_code_execution_context"
"""State key of a stateful executor's session, as in ADK: ``{"execution_session_id": ...}``."""
ERRORS_KEY = "_code_execution_errors"
"""State key of the consecutive failures: ``{invocation_id: count}`` of the latest invocation."""
MAX_OUTPUT = 100_000
"""Maximum characters of standard output, and of standard error, passed to the model."""
_SESSION_ID = "execution_session_id"
_BAD_NAME = re.compile(r"[^\w.\- ]")
"""Mainly separators: ``user:x`` would be an artifact shared by all sessions of the user."""


@dataclass(kw_only=True)
class Outcome:
    """The outcome of an execution."""

    content: types.Content
    """Content of the event: a single `code_execution_result`, which is not final (EVT-8)."""
    artifacts: dict[str, types.Part] = field(default_factory=dict[str, types.Part])
    """Output files by name, saved before the event is committed (FLW-92)."""


def prepare(executor: BaseCodeExecutor, llm_request: LlmRequest) -> None:
    """Prepare a request to a model that may write code; runs after contents and planner.

    For the provider's executor, adds its tool. For other executors, converts earlier code and
    results to fenced text, the form the model should write, and replaces data files by their names.
    """
    if isinstance(executor, BuiltInCodeExecutor):
        executor.process_llm_request(llm_request)
        return
    llm_request.contents = [_shown(executor, content) for content in llm_request.contents]


def is_exhausted(executor: BaseCodeExecutor, context: CallbackContext) -> bool:
    """Return whether consecutive failures in this invocation have reached the executor's limit."""
    return _failures(context) >= executor.error_retry_attempts


def code_of(
    executor: BaseCodeExecutor, response: LlmResponse, *, context: CallbackContext
) -> tuple[types.Content, str] | None:
    """Return the content to store for a complete response, and the code to run.

    The content ends with the code as an `executable_code` part; the response is not changed.
    Returns None if there is no code, the provider runs it, or the failure limit is reached.
    """
    if isinstance(executor, BuiltInCodeExecutor) or response.partial or not response.content:
        return None
    if is_exhausted(executor, context):
        return None
    content = response.content.model_copy()
    code = CodeExecutionUtils.extract_code_and_truncate_content(
        content, executor.code_block_delimiters
    )
    return None if code is None else (content, code)


def cut_off(
    executor: BaseCodeExecutor, response: LlmResponse, *, context: CallbackContext
) -> LlmResponse:
    """Return the response to store, truncated after the code to run.

    Code that will not be run, because the failure limit is reached, becomes text. An event thus
    ends with code only if the code is run.
    """
    if isinstance(executor, BuiltInCodeExecutor) or response.partial or not response.content:
        return response
    content = response.content
    if found := code_of(executor, response, context=context):
        content = found[0]
    elif pending_code(content):
        content = _shown(executor, content)
    return response.model_copy(update={"content": content})


def files_for(executor: BaseCodeExecutor, contents: Iterable[types.Content | None]) -> list[File]:
    """Return the input files for code, from all contents of the session."""
    return files_in(contents) if executor.optimize_data_file else []


async def execute(
    executor: BaseCodeExecutor,
    code: str,
    *,
    context: CallbackContext,
    execution_id: str,
    input_files: Sequence[File] = (),
    keep_files: bool = True,
) -> Outcome:
    """Run code, and return the content of the event with its result.

    Bookkeeping is written to the context's state and is therefore stored atomically with the
    event: a retry after a crash counts the same failure only once.

    Args:
        executor: The agent's executor.
        code: The code of the stored event.
        context: The step's context.
        execution_id: Id of the result's event: the same for all attempts of this execution, and
            unique to it.
        input_files: The files returned by `files_for`.
        keep_files: Whether output files can be stored; if not, the result informs the model.

    Raises:
        CodeExecutorError: The executor raised.
    """
    work = CodeExecutionInput(
        code=code,
        input_files=list(input_files),
        execution_id=_session_id(context, execution_id) if executor.stateful else execution_id,
    )
    result = _storable(await _run(executor, work, context))
    if not keep_files:
        result = _without_files(result)
    _count(context, failed=result.failed)
    part = CodeExecutionUtils.build_code_execution_result_part(result)
    return Outcome(
        content=types.Content(role="model", parts=[part]),
        artifacts={file.name: _artifact(file) for file in result.output_files},
    )


async def _run(
    executor: BaseCodeExecutor, work: CodeExecutionInput, context: CallbackContext
) -> CodeExecutionResult:
    with reported_as(CodeExecutorError):
        return await contained(call(executor.execute_code, context, work))


def _shown(executor: BaseCodeExecutor, content: types.Content) -> types.Content:
    shown = named(content) if executor.optimize_data_file else content.model_copy()
    blocks = executor.code_block_delimiters
    CodeExecutionUtils.convert_code_execution_parts(
        shown, blocks[0] if blocks else ("", ""), executor.execution_result_delimiters
    )
    return shown


def _session_id(context: CallbackContext, execution_id: str) -> str:
    """Return the session id of a stateful executor: the id of the session's first execution."""
    known = _remembered(context, CONTEXT_KEY)
    if not known.get(_SESSION_ID):
        context.state[CONTEXT_KEY] = {**known, _SESSION_ID: execution_id}
    return str(known.get(_SESSION_ID) or execution_id)


def _remembered(context: CallbackContext, key: str) -> dict[str, Any]:
    return context.state.get(key) or {}


def _failures(context: CallbackContext) -> int:
    return int(_remembered(context, ERRORS_KEY).get(context.invocation_id, 0))


def _count(context: CallbackContext, *, failed: bool) -> None:
    """Count a failure, or reset the count; only the latest invocation's count is kept."""
    before = _failures(context)
    if failed:
        context.state[ERRORS_KEY] = {context.invocation_id: before + 1}
    elif before:
        context.state[ERRORS_KEY] = {}


def _storable(result: CodeExecutionResult) -> CodeExecutionResult:
    """Return the result with texts that every store accepts, and with safe file names."""
    files: dict[str, File] = {}
    for file in result.output_files:
        name = _BAD_NAME.sub("_", file.name)[:128].strip(". ") or "file"
        files[name] = replace(file, name=name)
    return replace(
        result,
        stdout=_text(result.stdout),
        stderr=_text(result.stderr),
        output_files=list(files.values()),
    )


def _without_files(result: CodeExecutionResult) -> CodeExecutionResult:
    if not result.output_files:
        return result
    names = ", ".join(file.name for file in result.output_files)
    note = f"[not kept, as there is no artifact service: {names}]"
    return replace(result, stdout=f"{result.stdout}\n{note}".lstrip(), output_files=[])


def _text(text: str) -> str:
    shown = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    lost = len(shown) - MAX_OUTPUT
    return f"{shown[:MAX_OUTPUT]}\n[{lost} more characters were cut off]" if lost > 0 else shown


def _artifact(file: File) -> types.Part:
    try:
        return types.Part.from_bytes(data=file.data, mime_type=file.mime_type)
    except ValueError as error:
        raise CodeExecutorError(str(error)) from error
