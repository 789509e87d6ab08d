"""Names in declarations: those of nodes, and keywords that do not exist."""

from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel

from durable_adk.errors import WorkflowConfigurationError


def check_node_name(name: str) -> str:
    """Return the name of a node.

    Raises:
        WorkflowConfigurationError: It is no identifier, which paths of nodes need (GR-13).
    """
    if not name.isidentifier():
        raise WorkflowConfigurationError(f"Node name '{name}' must be a valid Python identifier.")
    return name


def check_keywords(kind: type[BaseModel], data: Any) -> Any:
    """Return what a model is made of.

    Raises:
        WorkflowConfigurationError: It has a keyword that the class, which forbids others, does not
            know; the message has the nearest name (GR-10).
    """
    known = [*kind.model_fields]
    aliases = {field.alias for field in kind.model_fields.values() if field.alias}
    unknown = [key for key in _keys(data) if key not in known and key not in aliases]
    if unknown and kind.model_config.get("extra") == "forbid":
        raise unknown_keyword(kind.__name__, str(unknown[0]), known)
    return data


def _keys(data: Any) -> list[Any]:
    return list(cast("dict[Any, Any]", data)) if isinstance(data, dict) else []


def unknown_keyword(owner: str, keyword: str, known: list[str]) -> WorkflowConfigurationError:
    """Return the error for a keyword that does not exist."""
    longer = [name for name in known if name.startswith(keyword)]
    near = get_close_matches(keyword, known, n=1) or longer
    remedy = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known))}."
    return WorkflowConfigurationError(f"{owner} has no keyword {keyword!r}; {remedy}")
