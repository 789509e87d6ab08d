"""What a code executor does to a request, to the response, and between the two.

A response with code is cut off behind the code (`code_of`) and stored. Then the code is run
(`execute`), and its result is an event of its own, with which the model is asked again (FLW-90).
Nothing is kept in memory: the code to run is the end of the stored event, the failures are counted
in the state. So every step may be made again, by any process.
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
from durable_adk.errors import CodeExecutorError, DurableAdkError, raised
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

CONTEXT_KEY = "_code_execution_context"
"""State key of a stateful executor's session, as in ADK: ``{"execution_session_id": ...}``."""
ERRORS_KEY = "_code_execution_errors"
"""State key of the failures in a row: ``{invocation_id: count}`` of the latest invocation."""
MAX_OUTPUT = 100_000
"""Characters of standard output, and of standard error, that the model is told."""
_SESSION_ID = "execution_session_id"
_BAD_NAME = re.compile(r"[^\w.\- ]")
"""Separators above all: ``user:x`` would be an artifact of all the user's sessions."""


@dataclass(kw_only=True)
class Outcome:
    """What an execution came to."""

    content: types.Content
    """Of the event: a single `code_execution_result`, so that it is not final (EVT-8)."""
    artifacts: dict[str, types.Part] = field(default_factory=dict[str, types.Part])
    """Output files by name, to be saved before the event is committed (FLW-92)."""


def prepare(executor: BaseCodeExecutor, llm_request: LlmRequest) -> None:
    """Make the request one for a model that may write code; comes after contents and planner.

    The provider's executor gets its tool. For another, code and results that came before become
    fenced text, as the model is to write it, and data files become their names.
    """
    if isinstance(executor, BuiltInCodeExecutor):
        executor.process_llm_request(llm_request)
        return
    llm_request.contents = [_shown(executor, content) for content in llm_request.contents]


def is_exhausted(executor: BaseCodeExecutor, context: CallbackContext) -> bool:
    """Whether code failed so often in a row in this invocation that no more is run."""
    return _failures(context) >= executor.error_retry_attempts


def code_of(
    executor: BaseCodeExecutor, response: LlmResponse, *, context: CallbackContext
) -> tuple[types.Content, str] | None:
    """The code that a whole response asks to be run, and the content to store for it.

    The content ends with the code as an `executable_code` part; the response is not changed. None:
    there is no code, or it is not ours to run, or too much has failed: then the response stands as
    it is.
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
    """The response to store: behind the code that is to be run there is nothing.

    Code that is not to be run any more becomes text, so that no event ends with code in vain.
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
    """The files that code is given, of all the session's contents."""
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
    """Run some code; its result as the next event's content.

    What has to be remembered is written to the context's state, and so stored with the event or
    not at all: an attempt that follows a crash counts the same failure once.

    Args:
        executor: The agent's.
        code: Of the stored event.
        context: The step's.
        execution_id: The same at every attempt of this execution, different for every other: the
            id of the event the result will be.
        input_files: What `files_for` finds.
        keep_files: Whether there is a place for output files; if not, the model is told so.

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
    try:
        return await contained(call(executor.execute_code, context, work))
    except DurableAdkError:
        raise
    except Exception as error:
        kind = type(error).__name__
        name = type(executor).__name__
        raise raised(CodeExecutorError, kind, f"{name} raised {kind}: {error}") from error


def _shown(executor: BaseCodeExecutor, content: types.Content) -> types.Content:
    shown = named(content) if executor.optimize_data_file else content.model_copy()
    blocks = executor.code_block_delimiters
    CodeExecutionUtils.convert_code_execution_parts(
        shown, blocks[0] if blocks else ("", ""), executor.execution_result_delimiters
    )
    return shown


def _session_id(context: CallbackContext, execution_id: str) -> str:
    """The id of a stateful executor's session: that of the first execution in it."""
    known = _remembered(context, CONTEXT_KEY)
    if not known.get(_SESSION_ID):
        context.state[CONTEXT_KEY] = {**known, _SESSION_ID: execution_id}
    return str(known.get(_SESSION_ID) or execution_id)


def _remembered(context: CallbackContext, key: str) -> dict[str, Any]:
    return context.state.get(key) or {}


def _failures(context: CallbackContext) -> int:
    return int(_remembered(context, ERRORS_KEY).get(context.invocation_id, 0))


def _count(context: CallbackContext, *, failed: bool) -> None:
    """Count a failure, or forget those before; only one invocation's, so that none pile up."""
    before = _failures(context)
    if failed:
        context.state[ERRORS_KEY] = {context.invocation_id: before + 1}
    elif before:
        context.state[ERRORS_KEY] = {}


def _storable(result: CodeExecutionResult) -> CodeExecutionResult:
    """The result with texts that every store keeps, and files with names that are only names."""
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
