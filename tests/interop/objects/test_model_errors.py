"""What failures of google-adk's models mean for a run."""

import threading

import anthropic
import httpx
import litellm
import openai
import pytest
from google.adk.models import lite_llm
from google.adk.models.anthropic_llm import _AnthropicRateLimitError

from durable_adk.errors import ModelUnavailableError
from durable_adk.interop.model import AdkModel
from durable_adk.interop.model_errors import sorted_error

REQUEST = httpx.Request("POST", "https://example.com/v1")


def response(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, request=REQUEST, headers=headers)


def of_openai(kind: type[openai.APIStatusError], status: int, code: str = "") -> Exception:
    answer = response(status, **{"Retry-After": "7"})
    return kind("no", response=answer, body={"message": "no", "code": code})


def of_anthropic(status: int, kind: str = "x") -> Exception:
    body = {"type": "error", "error": {"type": kind, "message": "no"}}
    return anthropic.APIStatusError("no", response=response(status), body=body)


PASSING = [
    of_openai(openai.RateLimitError, 429),
    of_openai(openai.InternalServerError, 500),
    openai.APIConnectionError(request=REQUEST),
    openai.APITimeoutError(request=REQUEST),
    of_anthropic(529, "overloaded_error"),
    of_anthropic(200, "overloaded_error"),  # in a stream
    anthropic.APIConnectionError(request=REQUEST),
    litellm.RateLimitError("no", "openai", "gpt"),
    litellm.ServiceUnavailableError("no", "openai", "gpt"),
    litellm.Timeout("no", "gpt", "openai"),
    litellm.APIConnectionError("no", "openai", "gpt"),
    httpx.HTTPStatusError("no", request=REQUEST, response=response(503)),
    httpx.RemoteProtocolError("cut"),
    ConnectionResetError("cut"),
]
LASTING = [
    of_openai(openai.BadRequestError, 400),
    of_openai(openai.AuthenticationError, 401),
    of_openai(openai.RateLimitError, 429, "insufficient_quota"),
    of_anthropic(400, "invalid_request_error"),
    litellm.ContextWindowExceededError("no", "gpt", "openai"),
    litellm.AuthenticationError("no", "openai", "gpt"),
    httpx.HTTPStatusError("no", request=REQUEST, response=response(404)),
    FileNotFoundError("no prompt"),
    ValueError("a 429 in the text means nothing"),
]


def name(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__name__}"


@pytest.mark.parametrize("error", PASSING, ids=name)
def test_what_passes_is_asked_again(error: Exception) -> None:
    """Limits of rates, overload, faults of servers and connections that were cut."""
    ours = sorted_error(error)
    assert isinstance(ours, ModelUnavailableError)
    assert ours.error_type == type(error).__name__


@pytest.mark.parametrize("error", LASTING, ids=name)
def test_what_lasts_ends_the_run_with_its_own_words(error: Exception) -> None:
    """Bad requests, wrong keys, contexts that are too long and quotas that are used up."""
    assert sorted_error(error) is error


def test_the_delay_is_what_the_provider_asks_for() -> None:
    """In its header, also of an error that the library has raised from another."""
    limited = of_openai(openai.RateLimitError, 429)
    assert sorted_error(limited).retry_after == 7
    wrapping = litellm.RateLimitError("no", "openai", "gpt")
    wrapping.__cause__ = limited
    assert sorted_error(wrapping).retry_after == 7
    answer = response(429, **{"retry-after-ms": "1500"})
    inner = anthropic.RateLimitError("no", response=answer, body=None)
    assert sorted_error(_AnthropicRateLimitError(inner)).retry_after == 1.5


async def test_litellm_is_imported_off_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """google-adk imports it at the first call, for seconds that would stop all other steps."""
    threads: list[int] = []
    monkeypatch.setattr(lite_llm, "_LITELLM_IMPORTED", False)
    monkeypatch.setattr(
        lite_llm, "_ensure_litellm_imported", lambda: threads.append(threading.get_ident())
    )
    await AdkModel.of(lite_llm.LiteLlm(model="openai/gpt"))._install_clients()
    (thread,) = threads
    assert thread != threading.get_ident()
