"""Makes the package's table of missing names out of the document's tables."""

import json
from collections import defaultdict
from typing import Any

from tests.integration.test_compatibility import ROOT, cells, quoted

TABLE = ROOT / "durable_adk" / "compatibility" / "missing_names.json"


def table() -> dict[str, Any]:
    """The reasons by module, and by module and name."""
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for module, listed, why in cells("Missing names"):
        for name in quoted(listed):
            names[_module(quoted(module)[0])][name] = _plain(why)
    modules = {
        module: _plain(why) for listed, why in cells("Missing modules") for module in quoted(listed)
    }
    return {"modules": modules, "names": names}


def _module(name: str) -> str:
    return "" if name == "google.adk" else name


def _plain(why: str) -> str:
    return why.replace("`", "")


if __name__ == "__main__":
    TABLE.write_text(json.dumps(table(), indent=1, sort_keys=True) + "\n")
