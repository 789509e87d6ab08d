"""Credentials that tools ask their users for."""

from collections.abc import Callable, Sequence
from typing import Any

from google.genai import types
from pydantic import TypeAdapter

from durable_adk.agents import BaseAgent, LlmAgent
from durable_adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from durable_adk.auth.auth_schemes import AuthScheme, OpenIdConnectWithConfig
from durable_adk.events import Event
from durable_adk.models import LlmRequest
from durable_adk.tools import ToolContext
from tests.scenarios.parts import last, thinker
from tests.scenarios.scenario import Turn, says, scenario
from tests.support.scripts import call

ASKED = ("a call mail", "a call adk_request_credential", "a response mail")
CLIENT = OAuth2Auth.model_validate(
    {"client_id": "c", "client_secret": "s", "redirect_uri": "https://app/back"}
)
TOKEN = "t"  # noqa: S105  # of nothing


def scheme(**data: Any) -> Any:
    """An API's scheme, of its JSON."""
    return TypeAdapter(AuthScheme).validate_python(data)


API_KEY = AuthConfig(
    auth_scheme=scheme(type="apiKey", **{"in": "header", "name": "X-Key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
    credential_key="mail",
)
CODE = AuthConfig(
    auth_scheme=scheme(
        type="oauth2",
        flows={
            "authorizationCode": {
                "authorizationUrl": "https://provider/consent?tenant=1",
                "tokenUrl": "http://127.0.0.1:9/token",
                "scopes": {"mail.read": "read", "mail.send": "send"},
            }
        },
    ),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=CLIENT),
    credential_key="mail",
)
OPEN_ID = AuthConfig(
    auth_scheme=OpenIdConnectWithConfig(
        authorization_endpoint="https://provider/consent",
        token_endpoint="http://127.0.0.1:9/token",  # noqa: S106  # an URL
        scopes=["openid", "mail"],
    ),
    raw_auth_credential=AuthCredential(
        auth_type=AuthCredentialTypes.OPEN_ID_CONNECT,
        oauth2=CLIENT.model_copy(update={"audience": "mails", "nonce": "n"}),
    ),
    credential_key="mail",
)


def mailer(config: AuthConfig, name: str = "a") -> LlmAgent:
    """An agent whose tool needs a credential, as ADK's pages show it."""

    def mail(tool_context: ToolContext) -> dict[str, Any]:
        """Send a mail."""
        found = tool_context.get_auth_response(config)
        if not found:
            tool_context.request_credential(config)
            return {"status": "asked"}
        token = found.oauth2 and found.oauth2.access_token
        return {"sent with": found.api_key or token or "nothing"}

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return said if "=>" in said else call("mail")

    return thinker(name, reply, tools=[mail])


def gives(credential: Callable[[AuthConfig], AuthCredential], *gets: str, **more: Any) -> Turn:
    """The user answers the latest request with a credential."""

    def message(events: Sequence[Event]) -> types.Content:
        request = next(
            call
            for event in reversed(events)
            for call in event.get_function_calls()
            if call.name == "adk_request_credential"
        )
        config = AuthConfig.model_validate((request.args or {})["authConfig"])
        config.exchanged_auth_credential = credential(config)
        response = config.model_dump(mode="json", by_alias=True, exclude_none=True)
        answer = types.FunctionResponse(id=request.id, name=request.name, response=response)
        return types.Content(role="user", parts=[types.Part(function_response=answer)])

    return Turn(message=message, gets=gets, **more)


def key(_: AuthConfig) -> AuthCredential:
    """The user's key."""
    return AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="k")


def consent(**given: str) -> Callable[[AuthConfig], AuthCredential]:
    """What the provider gave the user, put into the credential that was sent."""

    def of(config: AuthConfig) -> AuthCredential:
        credential = config.exchanged_auth_credential
        assert credential
        assert credential.oauth2
        state = credential.oauth2.state
        update = {name: value.format(state=state) for name, value in given.items()}
        oauth2 = credential.oauth2.model_copy(update=update)
        return credential.model_copy(update={"oauth2": oauth2})

    return of


@scenario(
    "TOL-50 TOL-52 TOL-53 TOL-54",
    says("go", *ASKED),
    gives(key, "a response mail", "a text mail=>{'sent with': 'k'}"),
    says("again", *ASKED),
    gives(key, "a response mail", "a text mail=>{'sent with': 'k'}"),
)
def a_user_gives_a_key() -> BaseAgent:
    return mailer(API_KEY)


@scenario(
    "TOL-50 TOL-51 TOL-53",
    says("go", *ASKED),
    gives(consent(access_token=TOKEN), "a response mail", "a text mail=>{'sent with': 't'}"),
)
def a_user_consents_and_the_client_has_the_token() -> BaseAgent:
    return mailer(CODE)


@scenario(
    "TOL-51 TOL-53",
    says("go", *ASKED),
    gives(
        consent(auth_response_uri="https://app/back?code=42&state={state}"),
        "a response mail",
        "a text mail=>{'sent with': 'nothing'}",
    ),
)
def a_user_consents_and_the_provider_is_away() -> BaseAgent:
    return mailer(OPEN_ID)


@scenario("TOL-54", says("go", *ASKED), waiting=["mail"])
def a_user_gives_no_credential() -> BaseAgent:
    return mailer(CODE)
