"""OAuth2: the page where a user consents, and the exchange of the resulting code for a token."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from http.client import HTTPException
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from durable_adk.auth.auth_credential import AuthCredential, OAuth2Auth
from durable_adk.auth.auth_schemes import OAuth2, OpenIdConnectWithConfig
from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.log import get_logger

TIMEOUT = 10.0
"""Timeout in seconds of a token request."""
_LOG = get_logger(__name__)


def with_consent_page(config: AuthConfig, *, call: str) -> AuthConfig:
    """Return the configuration with the URL of the page where the user consents, as ADK builds it.

    The client sends the user to `exchanged_auth_credential.oauth2.auth_uri`, and answers with the
    URL to which the provider sent the user back. Returned unchanged: schemes without such a page,
    and configurations that already have its URL or have no `client_id`.

    Args:
        config: The configuration that a tool requests.
        call: Identifies the tool's call; all its attempts use the same `state`.
    """
    raw, provided = config.raw_auth_credential, config.exchanged_auth_credential
    client, page = raw and raw.oauth2, _page(config)
    has_url = provided is not None and provided.oauth2 is not None and provided.oauth2.auth_uri
    if raw is None or client is None or not client.client_id or page is None or has_url:
        return config
    credential = raw.model_copy(deep=True)
    if not client.auth_uri:
        state = _state(client, call)
        query = urlencode(_consent(client, scopes=page[1], state=state))
        separator = "&" if urlsplit(page[0]).query else "?"
        update = {"auth_uri": f"{page[0]}{separator}{query}", "state": state}
        credential.oauth2 = client.model_copy(update=update)
    return config.model_copy(update={"exchanged_auth_credential": credential})


def with_token(config: AuthConfig, provided: AuthCredential) -> AuthCredential:
    """Return the credential that a user provided, with the token for its code (TOL-53).

    The client that requests the token is the tool's own, whatever the answer contains. If there is
    nothing to exchange, or the provider refuses, the credential has no token, as in ADK.

    Args:
        config: The tool's configuration, with its secrets.
        provided: The credential in the user's answer.
    """
    client = config.raw_auth_credential and config.raw_auth_credential.oauth2
    if provided.oauth2 is None or client is None:
        return provided
    own = {"client_id": client.client_id, "client_secret": client.client_secret}
    oauth2 = provided.oauth2.model_copy(update=own)
    url, code = _token_url(config), _code(oauth2)
    if not oauth2.access_token and client.client_id and url and code:
        redirect_uri = oauth2.redirect_uri or client.redirect_uri
        try:
            tokens = _tokens(url, client, code=code, redirect_uri=redirect_uri)
        except (OSError, HTTPException, TypeError, ValueError) as error:
            # Without the error's text, which may quote a secret.
            _LOG.error("credential.no_token", url=url, error=type(error).__name__)
        else:
            oauth2 = oauth2.model_copy(update=tokens)
    return provided.model_copy(update={"oauth2": oauth2})


def without_client_secret(credential: AuthCredential) -> AuthCredential:
    """Return the credential for storage: the client secret belongs to the tool, not to the user."""
    oauth2 = credential.oauth2 and credential.oauth2.model_copy(update={"client_secret": None})
    return credential.model_copy(update={"oauth2": oauth2})


def _page(config: AuthConfig) -> tuple[str, list[str]] | None:
    """Return the page where users consent, and the scopes to which they consent."""
    match config.auth_scheme:
        case OpenIdConnectWithConfig() as scheme:
            return scheme.authorization_endpoint, scheme.scopes or []
        case OAuth2(flows=flows) if flow := flows.implicit or flows.authorizationCode:
            return flow.authorizationUrl, list(flow.scopes)
        case _:
            return None


def _token_url(config: AuthConfig) -> str | None:
    match config.auth_scheme:
        case OpenIdConnectWithConfig() as scheme:
            return scheme.token_endpoint
        case OAuth2(flows=flows) if flows.authorizationCode:
            return flows.authorizationCode.tokenUrl
        case _:
            return None


def _consent(client: OAuth2Auth, *, scopes: list[str], state: str) -> dict[str, str]:
    parameters = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.redirect_uri,
        "scope": " ".join(scopes),
        "state": state,
        "access_type": "offline",
        "prompt": client.prompt or "consent",
        "audience": client.audience,
        "nonce": client.nonce,
    }
    if client.code_verifier:
        digest = hashlib.sha256(client.code_verifier.encode()).digest()
        parameters["code_challenge"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        parameters["code_challenge_method"] = "S256"
    return {name: value for name, value in parameters.items() if value}


def _state(client: OAuth2Auth, call: str) -> str:
    """Return an unguessable value; with a client secret, every attempt of the call repeats it."""
    if not client.client_secret:
        return secrets.token_urlsafe(24)
    return hmac.digest(client.client_secret.encode(), call.encode(), "sha256").hex()[:32]


def _code(oauth2: OAuth2Auth) -> str | None:
    query = parse_qs(urlsplit(oauth2.auth_response_uri or "").query)
    return oauth2.auth_code or next(iter(query.get("code", [])), None)


def _tokens(url: str, client: OAuth2Auth, *, code: str, redirect_uri: str | None) -> dict[str, Any]:
    """Request the token from the provider, with the client's authentication method.

    Raises:
        OSError: The provider cannot be reached, or refuses.
        HTTPException: Its response is not HTTP.
        ValueError: Its response has no token, or the method is not supported.
        TypeError: Its response is not a JSON object.
    """
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
    form["code_verifier"] = client.code_verifier
    headers = {"Accept": "application/json"}
    match client.token_endpoint_auth_method if client.client_secret else None:
        case None:
            form["client_id"] = client.client_id
        case "client_secret_basic":
            pair = f"{quote_plus(client.client_id or '')}:{quote_plus(client.client_secret or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "client_secret_post":
            form |= {"client_id": client.client_id, "client_secret": client.client_secret}
        case method:
            raise ValueError(f"{method} is not supported")
    if not url.startswith(("https://", "http://")):
        raise ValueError("the token's URL is not of the web")
    body = urlencode({name: value for name, value in form.items() if value}).encode()
    request = Request(url, data=body, headers=headers)  # noqa: S310  # checked above
    with build_opener(_NoRedirects).open(request, timeout=TIMEOUT) as answer:
        response: dict[str, Any] = dict(json.load(answer))
    if not response.get("access_token"):
        raise ValueError("the answer has no access_token")
    tokens = {name: response.get(name) for name in ("access_token", "refresh_token", "id_token")}
    seconds = int(response.get("expires_in") or 0)
    return tokens | {
        "expires_in": seconds or None,
        "expires_at": int(time.time()) + seconds if seconds else None,
    }


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: the secret is only for the configured URL."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        """See the base class."""
