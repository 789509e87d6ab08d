"""`artifact://` URIs: references from an artifact to a version of another one (ART-8)."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from google.genai import types

from durable_adk.artifacts._key import ArtifactKey, key_of
from durable_adk.errors import InvalidRequestError

SCHEME = "artifact://"
_URI = re.compile(
    SCHEME + r"apps/([^/]+)/users/([^/]+)(?:/sessions/([^/]+))?/artifacts/(.+)/versions/(\d{1,18})"
)


class Reference(NamedTuple):
    """One version of an artifact."""

    key: ArtifactKey
    version: int


def reference_in(part: types.Part, origin: ArtifactKey) -> Reference | None:
    """Return the reference in a part of the artifact `origin`; None if the part is not a reference.

    Raises:
        InvalidRequestError: The URI is malformed, or leaves the scope of `origin`: its own session
            and its user's names (S4).
    """
    uri = (part.file_data and part.file_data.file_uri) or ""
    if not uri.startswith(SCHEME):
        return None
    found = _URI.fullmatch(uri)
    if not found:
        raise InvalidRequestError(f"artifact refers to {uri!r}, which is not an artifact URI.")
    app_name, user_id, session_id, name = (text and unquote(text) for text in found.groups()[:4])
    key = key_of(app_name or "", user_id or "", session_id, name or "")
    own = {origin.scope, origin.scope._replace(session_id=None)}
    if key.scope not in own:
        raise InvalidRequestError(f"artifact refers to {uri!r}, outside of its own scope.")
    return Reference(key, int(found[5]))
