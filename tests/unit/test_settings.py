"""Settings from the environment."""

import json
from itertools import chain

import pytest
from pydantic import ValidationError

from durable_adk.activities.webhook.address import addresses_of
from durable_adk.embedded.stores import folder_stores
from durable_adk.errors import InvalidRequestError
from durable_adk.server.settings import ServerSettings
from durable_adk.settings import Settings, WebhookEndpoint, read_settings


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
