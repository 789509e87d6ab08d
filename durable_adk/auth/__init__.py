"""Credentials that tools request, and their redaction before they leave the process."""

from durable_adk.auth.auth_credential import (
    AuthCredential,
    AuthCredentialTypes,
    HttpAuth,
    HttpCredentials,
    OAuth2Auth,
    ServiceAccount,
    ServiceAccountCredential,
)
from durable_adk.auth.auth_schemes import AuthScheme, AuthSchemeType, OpenIdConnectWithConfig
from durable_adk.auth.auth_tool import AuthConfig, AuthToolArguments
from durable_adk.auth.redaction import without_secrets

__all__ = [
    "AuthConfig",
    "AuthCredential",
    "AuthCredentialTypes",
    "AuthScheme",
    "AuthSchemeType",
    "AuthToolArguments",
    "HttpAuth",
    "HttpCredentials",
    "OAuth2Auth",
    "OpenIdConnectWithConfig",
    "ServiceAccount",
    "ServiceAccountCredential",
    "without_secrets",
]
