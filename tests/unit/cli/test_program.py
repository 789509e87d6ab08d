"""The program, its commands, and what it imports."""

import dataclasses
import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from durable_adk.cli.commands import options
from durable_adk.cli.commands.declaration import loaded
from durable_adk.cli.program import declared
from durable_adk.server.settings import ServerSettings
from durable_adk.sessions import Status
from durable_adk.wire.messages import WhenBusy

ROOT = Path(__file__).parents[3]


def test_help_names_settings_and_documents_that_there_are():
    """A server's names each way to know its users, and where all settings are."""
    known = {f"DURABLE_ADK_SERVER_{name.upper()}" for name in ServerSettings.model_fields}
    for command in declared():
        named = set(re.findall(r"DURABLE_ADK_SERVER_\w+", command.__doc__ or ""))
        assert named <= known, command.work
        if command.work in ("dev.serving:web", "dev.http:serve"):
            ways = ("TOKENS_FILE", "PROXY_HEADER", "OIDC")
            assert named == {f"DURABLE_ADK_SERVER_{way}" for way in ways}
            assert "docs/use/server.md" in command.__doc__
        for path in re.findall(r"docs/[\w-]+\.md", command.__doc__ or ""):
            assert (ROOT / path).is_file()


@pytest.mark.parametrize("command", list(declared()), ids=lambda command: command.work)
def test_the_work_takes_what_the_command_declares(command):
    """The function of each command exists and has its parameters, or a dataclass with them."""
    work = loaded(command.work)
    hints = get_type_hints(work)
    taken = set[str]()
    for name, hint in hints.items():
        fields = dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else ()
        taken |= {one.name for one in fields if one.init} or {name}
    names = set(inspect.signature(command).parameters) - {"debug"}
    assert names <= taken
    assert {name for name in inspect.signature(work).parameters if name not in names} <= {
        "connection",
        "options",
    }


def test_choices_are_the_values_of_their_enumerations():
    """An option offers what the enumeration behind it has."""
    assert set(get_args(options.Status)) == {str(one) for one in Status}
    assert set(get_args(options.WhenBusy)) == {str(one) for one in WhenBusy}
