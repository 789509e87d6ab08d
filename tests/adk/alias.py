"""google-adk under the names of durable_adk, so that what is written once is run by both."""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OURS, ADKS = "durable_adk", "google.adk"


class _Alias(Loader):
    """Loads a module of google-adk for a name of durable_adk."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """See base class."""
        module = importlib.import_module(ADKS + spec.name.removeprefix(OURS))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import has replaced."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


class _Finder(MetaPathFinder):
    """Finds the modules of google-adk for the names of durable_adk."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See base class."""
        del path, target
        if fullname.partition(".")[0] != OURS:
            return None
        try:
            importlib.import_module(ADKS + fullname.removeprefix(OURS))
        except ModuleNotFoundError:
            return None
        return ModuleSpec(fullname, _Alias())


def switch() -> None:
    """Let `durable_adk` mean google-adk from now on, in this process.

    Adds the names that what both run needs, and that google-adk lacks.
    """
    assert OURS not in sys.modules, "durable_adk has been imported already"
    sys.meta_path.insert(0, _Finder())
    models = importlib.import_module(f"{ADKS}.models")
    models.ScriptedModel = importlib.import_module("tests.adk.scripted").ScriptedModel
    errors = importlib.import_module(f"{ADKS}.errors")
    errors.ModelError = type("ModelError", (Exception,), {})


def adks_modules(*names: str) -> list[ModuleType]:
    """Import modules with google-adk under our names, beside those that have ours."""
    ours = {name: sys.modules.pop(name) for name in [*sys.modules] if _is_switched(name)}
    switch()
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        del sys.meta_path[0]
        for name in [*sys.modules]:
            if _is_switched(name):
                del sys.modules[name]
        sys.modules.update(ours)


def _is_switched(name: str) -> bool:
    return name.partition(".")[0] in {OURS, "tests"}
