"""What imports of ADK's names say that are not here."""

import importlib
import sys
from types import SimpleNamespace

import pytest

import durable_adk
import durable_adk.tools
from durable_adk.compatibility import missing_names


def test_the_root_has_what_adks_has() -> None:
    """Samples begin with `from google.adk import Agent`."""
    for name, module in [("Agent", "agents"), ("Context", "agents"), ("Event", "events")]:
        found = getattr(durable_adk, name)
        assert found is getattr(importlib.import_module(f"durable_adk.{module}"), name)
        assert name in dir(durable_adk)
    assert durable_adk.Runner is importlib.import_module("durable_adk.runners").Runner
    with pytest.raises(AttributeError):
        _ = durable_adk.nothing


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        ("durable_adk.tools", "ModelConsultTool", "not supported"),
        ("durable_adk.models", "LiteLlm", "write a BaseLlm"),
        ("durable_adk.tools", "VertexAiSearchTool", "Google Cloud"),
    ],
)
def test_a_missing_name_says_why(module: str, name: str, reason: str) -> None:
    """By whichever kind of import it is asked for; other names are unknown as ever."""
    with pytest.raises(ImportError, match=reason):
        getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError):
        _ = importlib.import_module(module).no_name_at_all


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("durable_adk.models.lite_llm", "write a BaseLlm"),
        ("durable_adk.evaluation", "not supported"),
        ("durable_adk.cli.utils", "DURABLE_ADK_LOG"),
        ("durable_adk.version", "__version__"),
    ],
)
def test_a_missing_module_says_why(module: str, reason: str) -> None:
    """It is a module that is not found, for code that tries."""
    with pytest.raises(ModuleNotFoundError, match=reason) as caught:
        importlib.import_module(module)
    assert caught.value.name == module
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("durable_adk.models.other_llm")


def test_old_names_of_mcp_are_there() -> None:
    """Samples take them from ADK's older places."""
    toolset = importlib.import_module("durable_adk.tools.mcp_tool.mcp_toolset")
    assert durable_adk.tools.MCPToolset is durable_adk.tools.McpToolset is toolset.McpToolset
    manager = importlib.import_module("durable_adk.tools.mcp_tool.mcp_session_manager")
    assert manager.StdioServerParameters is toolset.StdioServerParameters
    assert manager.StreamableHTTPServerParams is manager.StreamableHTTPConnectionParams


def test_the_root_is_executed_again_and_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox does so for each workflow; google-adk's classes are not wrapped again either."""

    class BaseAgent:
        """Stands for google-adk's."""

    made = BaseAgent.__init__
    module = SimpleNamespace(BaseAgent=BaseAgent)
    monkeypatch.setitem(sys.modules, "google.adk.agents.base_agent", module)
    finders = list(sys.meta_path)
    missing = missing_names.install()
    assert sys.meta_path == finders
    assert BaseAgent.__init__ is made
    with pytest.raises(AttributeError, match="nothing"):
        missing("nothing")
