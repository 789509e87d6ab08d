"""What is typed becomes the kind of credential that was asked for."""

import json
from typing import Any

import pytest

from durable_adk.auth import AuthConfig
from durable_adk.cli.responses import credential_prompt, credential_response
from durable_adk.errors import InvalidRequestError

API_KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
OAUTH2 = {"type": "oauth2", "flows": {}}
SECRET = "canary-0c9d"  # noqa: S105  # no secret of anybody


def config(scheme: dict[str, Any], **fields: Any) -> AuthConfig:
    """A configuration as it comes with a request."""
    return AuthConfig.model_validate({"authScheme": scheme, **fields})


def given(asked: AuthConfig, text: str) -> dict[str, Any]:
    """The credential of the answer."""
    return credential_response(asked, text)["exchangedAuthCredential"]


@pytest.mark.parametrize(
    ("scheme", "text", "field", "expected"),
    [
        (API_KEY, SECRET, "apiKey", SECRET),
        (
            {"type": "http", "scheme": "bearer"},
            SECRET,
            "http",
            {"scheme": "bearer", "credentials": {"token": SECRET}},
        ),
        (
            {"type": "http", "scheme": "basic"},
            f"me:{SECRET}:",
            "http",
            {"scheme": "basic", "credentials": {"username": "me", "password": f"{SECRET}:"}},
        ),
    ],
)
def test_a_scheme_says_what_the_text_is(scheme, text, field, expected):
    """TOL-51: for each scheme the text goes where its tools look; a newline at its end does not."""
    assert given(config(scheme), f"{text}\n")[field] == expected


def test_a_consent_keeps_what_was_sent():
    """TOL-51: the state and client of the request come back with the URL or the token."""
    sent = {
        "authType": "oauth2",
        "oauth2": {"clientId": "c", "state": "st", "authUri": "https://p"},
    }
    asked = config(OAUTH2, exchangedAuthCredential=sent)
    back = given(asked, "https://back?state=st&code=x")["oauth2"]
    assert (back["authResponseUri"], back["state"]) == ("https://back?state=st&code=x", "st")
    assert given(asked, SECRET)["oauth2"]["accessToken"] == SECRET


def test_json_of_any_kind_is_taken_as_it_is():
    """For every kind an AuthCredential as JSON will do."""
    credential = {"authType": "oauth2", "oauth2": {"accessToken": SECRET}}
    assert given(config(API_KEY), json.dumps(credential))["oauth2"]["accessToken"] == SECRET


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (config(API_KEY), " \n"),
        (config({"type": "http", "scheme": "basic"}), SECRET),
        (config({"type": "mine"}), SECRET),
        (config(API_KEY), json.dumps({"authType": SECRET})),
        (config(OAUTH2, rawAuthCredential={"authType": "serviceAccount"}), f'{{"a": "{SECRET}"}}'),
    ],
)
def test_what_cannot_be_used_is_refused_and_not_repeated(asked, text):
    """TRAP-48: neither the message nor a cause tells what was typed."""
    with pytest.raises(InvalidRequestError) as caught:
        credential_response(asked, text)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_person_is_told_what_to_type():
    """The prompt names the kind and the tool."""
    assert credential_prompt(config(API_KEY), "mail").startswith("API key, for mail")
