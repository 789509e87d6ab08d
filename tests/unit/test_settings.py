"""Settings from the environment."""

import json
import math
from functools import partial
from itertools import chain

import pytest
from pydantic import ValidationError

from durable_adk.code_executors import ContainerCodeExecutor, SubprocessCodeExecutor
from durable_adk.embedded.stores import folder_stores
from durable_adk.errors import AgentDefinitionError, InvalidRequestError
from durable_adk.http.webhook_address import addresses_of
from durable_adk.server.settings import ServerSettings
from durable_adk.settings import (
    MAX_SECONDS,
    Limits,
    Settings,
    WebhookEndpoint,
    checked_seconds,
    read_settings,
)
from durable_adk.wire.run_config import Budget
from durable_adk.wire.tool_contract import RetryConfig


async def test_the_environment_says_where_things_are_kept(tmp_path, monkeypatch):
    """Each store has a variable of its own; what has none is in the data folder."""
    monkeypatch.setenv("DURABLE_ADK_CREDENTIALS", str(tmp_path / "vault"))
    assert Settings().credentials == str(tmp_path / "vault")
    assert Settings().artifacts is Settings().memory is None
    async with folder_stores(tmp_path / "data"):
        assert (tmp_path / "vault").stat().st_mode & 0o777 == 0o700
        assert not (tmp_path / "data" / "credentials").exists()


def test_an_error_of_a_setting_quotes_no_secret(monkeypatch):
    """Neither a webhook's secret nor a token in its URL ends in a log."""
    endpoint = {"url": "ftp://example.com/?token=s3cret", "secret": "whsec_s3cret"}
    monkeypatch.setenv("DURABLE_ADK_WEBHOOKS", json.dumps([endpoint]))
    with pytest.raises(ValidationError, match="24 to 64 random bytes") as refused:
        Settings()
    assert "s3cret" not in str(refused.value)


HOSTS = {
    "Hooks.Internal:8443": ["http://hooks.internal:8443/x"],
    "xn--bcher-kva.internal": ["http://b\u00fccher.internal/"],
    "[fd00:0::1]": ["http://[fd00::1]/", "http://[FD00:0:0::1]:8443/"],
    "[::1]:8443": ["https://[::1]:8443/"],
}


@pytest.mark.parametrize("kind", [Settings, ServerSettings])
async def test_a_push_host_is_known_however_it_is_written(monkeypatch, kind):
    """Also an IPv6 address, in brackets as in a URL, with or without a port."""
    monkeypatch.setenv("DURABLE_ADK_PUSH_HOSTS", json.dumps(list(HOSTS)))
    for url in chain.from_iterable(HOSTS.values()):
        assert await addresses_of(url, kind().push_hosts) == [], url


@pytest.mark.parametrize(
    "host", ["::1", "fd00::1", "fd00::1:8443", "[fd00]", "[::1", "a:b", "", "*"]
)
def test_a_push_host_that_no_url_has_is_refused(monkeypatch, host):
    """Without brackets an IPv6 address may end with a port; the error names the variable."""
    monkeypatch.setenv("DURABLE_ADK_PUSH_HOSTS", json.dumps([host]))
    for kind in (Settings, ServerSettings):
        with pytest.raises(ValidationError, match=r"DURABLE_ADK_PUSH_HOSTS: .* needs brackets"):
            kind()


@pytest.mark.parametrize("url", ["https://fd00::1/x", "https://[fd00::1/x", "https://h:99999/x"])
def test_a_webhook_whose_host_is_unclear_is_refused(url):
    """The error names the variable, and does not have the URL."""
    with pytest.raises(ValidationError, match=r"DURABLE_ADK_WEBHOOKS: .*brackets") as refused:
        WebhookEndpoint(url=url, secret=f"whsec_{'A' * 32}")
    assert url not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "name", "text", "told"),
    [
        (ServerSettings, "DURABLE_ADK_SERVER_HOSTS", "s3cret", " is not JSON (Expecting value"),
        (ServerSettings, "DURABLE_ADK_PUSH_HOSTS", "s3cret", " is not JSON (Expecting value"),
        (ServerSettings, "DURABLE_ADK_SERVER_PORT", "s3cret", ": Input should be a valid integer"),
        (ServerSettings, "DURABLE_ADK_SERVER_ORIGINS", '["x"]', ": 'x': browsers send origins"),
        (ServerSettings, "DURABLE_ADK_SERVER_OIDC", '{"issuer": "x"}', " (issuer): use https"),
        (ServerSettings, "DURABLE_ADK_SERVER_OIDC", "s3cret", ": give a JSON object"),
        (ServerSettings, "DURABLE_ADK_PUSH_HOSTS", '["::1"]', ": '::1' is no host"),
        (ServerSettings, "DURABLE_ADK_ANSWER_KEY", "s3cret", ": give a secret of at least 32"),
        (Settings, "DURABLE_ADK_ANSWER_URL", "s3cret", ": give the https or http URL"),
        (Settings, "DURABLE_ADK_ANSWER_URL", "https://x", " needs DURABLE_ADK_ANSWER_KEY, a "),
        (Settings, "DURABLE_ADK_LIMITS", '{"max_history_events": 0}', " (max_history_events): In"),
        (Settings, "DURABLE_ADK_PAYLOAD_THRESHOLD", "s3cret", ": Input should be a valid integer"),
    ],
)
def test_an_error_of_a_setting_names_its_variable(monkeypatch, kind, name, text, told):
    """In one line that has no secret, and no page of a library."""
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidRequestError) as refused:
        read_settings(kind)
    assert refused.value.message.startswith(f"{name}{told}")
    for word in ("s3cret", "pydantic", "\n"):
        assert word not in refused.value.message


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Budget, "seconds"),
        (RetryConfig, "initial_delay"),
        (RetryConfig, "max_delay"),
        (ServerSettings, "ping_seconds"),
        (ServerSettings, "drain_seconds"),
        (partial(SubprocessCodeExecutor, allow_unsafe=True), "timeout_seconds"),
        (partial(ContainerCodeExecutor, image="i"), "timeout_seconds"),
        *(
            (Limits, name)
            for name, field in Limits.model_fields.items()
            if field.annotation is float
        ),
    ],
)
def test_times_are_finite(kind, name):
    """D11: an infinite one is refused by name; one of ages is cut to what timers can be set to."""
    for wrong in (math.inf, math.nan):
        with pytest.raises(ValidationError, match=name.split("_")[0]):
            kind(**{name: wrong})
    assert getattr(kind(**{name: 1e300}), name) == MAX_SECONDS


def test_a_tools_time_of_ages_is_cut():
    """D11: the same for options that are no fields."""
    assert checked_seconds(1e300, "timeout") == MAX_SECONDS
    for wrong in (math.inf, math.nan, 0.0):
        with pytest.raises(AgentDefinitionError, match="timeout"):
            checked_seconds(wrong, "timeout")
