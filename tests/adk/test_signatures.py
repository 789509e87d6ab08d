"""What is called missing against google-adk itself: every public name, and its signature."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.adk.google_adk import GoogleAdk
from tests.adk.names import Names, packages, public_names
from tests.support.compatibility import members, missing_names


@pytest.fixture(scope="module")
def adks(google_adk: GoogleAdk) -> Names:
    """google-adk's names."""
    return google_adk.ask(names=True)


@pytest.fixture(scope="module")
def ours(adks: Names) -> Names:
    """Ours, of the modules that google-adk has."""
    return public_names("durable_adk", adks)


def lacking(adks: Any, ours: Any) -> set[str]:
    """Fields, parameters and methods of a class or function that are missing here."""
    if adks["kind"] == "function":
        return _lacking_parameters(adks["parameters"], ours["parameters"])
    if adks["kind"] != "class":
        return set()
    return _lacking_parameters(adks["made with"], ours["made with"]) | (
        adks["members"].keys() - ours["members"].keys() - {*ours["made with"], *ours["attributes"]}
    )


def _lacking_parameters(adks: dict[str, str], ours: dict[str, str]) -> set[str]:
    named = {name for name, kind in adks.items() if kind != "**"}
    return set() if "**" in ours.values() else named - ours.keys()


def signatures(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    """The signatures of a class, its methods first, or of a function."""
    if found["kind"] == "class":
        yield from (
            (f"{name}.{member}", one)
            for member, one in found["members"].items()
            if one["kind"] == "function"
        )
        yield name, {"parameters": found["made with"]}
    elif found["kind"] == "function":
        yield name, found


def unlike(adks: Any, ours: Any) -> Iterator[str]:
    """What of a signature is not the same: parameters that both have, and how it is called."""
    for name, kind in adks["parameters"].items():
        here = ours["parameters"].get(name, "**")
        if "**" not in (kind, here) and not _fits(kind, here):
            yield name
    if adks.get("called") != ours.get("called"):
        yield "await" if "await" in (adks.get("called"), ours.get("called")) else "call"
    if not _within(ours.get("returns", ""), adks.get("returns", "")):
        yield "return"


def _fits(adks: str, ours: str) -> bool:
    """Whether it accepts the same arguments as ADK's, with the same defaults."""
    if "keyword" in ours and "keyword" not in adks:
        return False
    default, here = (each.removeprefix("keyword").strip() for each in (adks, ours))
    return not default or default == here or "=..." in (default, here)


def _within(ours: str, adks: str) -> bool:
    """Whether a return type is as narrow as ADK's; one that is not annotated counts as equal."""
    here, there = {*ours.split("|")}, {*adks.split("|")}
    return not ours or not adks or here <= there or there == {"Any"} or here == {"Self"}


def listed(kind: str) -> set[tuple[str, str]]:
    """The owners and names of a kind in members.json."""
    return {(owner, name) for owner, names in members()[kind].items() for name in names}


def both(adks: Names, ours: Names) -> Iterator[tuple[str, Any, Any]]:
    """The names that both have."""
    for module, names in adks.items():
        for name, found in names.items():
            if name in ours.get(module, {}) and ours[module][name]["kind"] == found["kind"]:
                yield name, found, ours[module][name]


def test_every_module_is_here_or_declared(adks: Names, ours: Names) -> None:
    """Each that google-adk has is here, or is listed as missing with its package or by itself."""
    missing = missing_names().modules
    lost = {
        module
        for module in adks.keys() - ours.keys()
        if not any(module == one or module.startswith(f"{one}.") for one in missing)
    }
    assert lost == set()


def test_every_package_is_here_or_declared(google_adk: GoogleAdk) -> None:
    """Also of those whose names are not compared."""
    missing = missing_names().modules.keys()
    assert {*google_adk.ask(packages=True)} - {*packages("durable_adk")} <= missing


def test_every_name_is_here_or_declared(adks: Names, ours: Names) -> None:
    """Each that google-adk has is here, or is listed as missing."""
    names = {(module, name) for module in ours for name in adks[module]}
    here = {(module, name) for module, found in ours.items() for name in found}
    table = missing_names().names
    assert names - here == {(module, name) for module in table for name in table[module]} & names


def test_what_a_class_lacks_is_declared(adks: Names, ours: Names) -> None:
    """Fields, parameters and methods, by the class or one that it is derived from."""
    rows = listed("missing")
    declared = {(owner.rpartition(".")[2], name) for owner, name in rows}
    lost = {
        f"{name}: {lack}"
        for name, found, here in both(adks, ours)
        for lack in lacking(found, here)
        if not declared & {(owner, lack) for owner in (name, *found.get("bases", ()))}
    }
    assert sorted(lost) == []


def test_a_signature_is_adks_or_declared(adks: Names, ours: Names) -> None:
    """Parameters mean the same and are passed alike; await, iterate and expect the same."""
    found = {
        (owner, what)
        for name, one, other in both(adks, ours)
        for here in [dict(signatures(name, other))]
        for owner, signature in signatures(name, one)
        if owner in here
        for what in unlike(signature, here[owner])
    }
    assert found <= listed("signatures")
