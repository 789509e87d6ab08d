import os
from pathlib import Path

from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import LlmAgent
from google.adk.auth.auth_credential import AuthCredential
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.openapi_tool.auth.auth_helpers import token_to_scheme_credential
from google.adk.tools.openapi_tool.openapi_spec_parser.openapi_toolset import OpenAPIToolset

SPEC = (Path(__file__).parent / "openapi.yaml").read_text()
STORE = os.getenv("PET_STORE_URL", "http://localhost:8080")

auth_scheme, auth_credential = token_to_scheme_credential(
    "apikey", "header", "X-Store-Key", os.getenv("PET_STORE_KEY", "store-key")
)
store = OpenAPIToolset(
    spec_str=SPEC.replace("http://localhost:8080", STORE),
    spec_str_type="yaml",
    auth_scheme=auth_scheme,
    auth_credential=auth_credential,
    allow_private_network_access=True,
)


def my_points(year: int, credential: AuthCredential) -> dict:
    """Tells how many points the customer has.

    Args:
        year: The year of the purchases.
    """
    return {"year": year, "points": 7 if credential.api_key == "customer-key" else 0}


points = AuthenticatedFunctionTool(
    func=my_points,
    auth_config=AuthConfig(
        auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "X-Customer-Key"}),
        credential_key="customer",
    ),
    response_for_auth_required="The customer has to give the key of the card first.",
)

root_agent = LlmAgent(
    name="seller",
    model="gemini-2.5-flash",
    instruction="You sell pets. Find and reserve them with the store's API.",
    tools=[store, points],
)
