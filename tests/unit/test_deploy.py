"""What `docker-compose.yml` is built from and runs, as far as that shows without containers."""

import re
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")


def let_through(path: str) -> bool:
    """Whether a file reaches the build: the last rule that names it or a folder it is in wins."""
    rules = (ROOT / ".dockerignore").read_text().split()
    above = list(accumulate(PurePosixPath(path).parts, lambda folder, name: f"{folder}/{name}"))
    allowed = True
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        names = PurePosixPath(path).parts if "**/" in rule else above
        # A `*` of a rule stands for names of one folder, that of fnmatch for any: compare depths.
        if any(fnmatchcase(n, pattern) and n.count("/") == pattern.count("/") for n in names):
            allowed = rule.startswith("!")
    return allowed


def copied() -> list[str]:
    """What the Dockerfile takes from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def test_the_image_is_given_what_it_copies() -> None:
    """D13: each COPY finds its files, which .dockerignore leaves out unless it names them."""
    assert len(copied()) >= 6
    for source in copied():
        assert (ROOT / source).exists(), source
        assert let_through(source), source
    assert let_through("durable_adk/cli/key.py")


def test_the_image_is_given_nothing_else() -> None:
    """No secret, history or environment of the machine that builds it gets into a layer."""
    for left in (".env", ".git/config", "keys", "tests/conftest.py", ".venv/bin/python"):
        assert not let_through(left), left
    assert not let_through("durable_adk/cli/__pycache__/key.pyc")


def test_what_workers_keep_in_files_is_of_all_and_stays() -> None:
    """S14: a credential given to one worker is there for the others, and for those after them.

    A new volume takes the owner and the mode of the image's folder, so the image has to have it.
    """
    (folder,) = re.findall(r"DURABLE_ADK_DATA_DIR=(\S+)", DOCKERFILE)
    mounts = dict(volume.split(":")[1::-1] for volume in COMPOSE["services"]["worker"]["volumes"])
    assert mounts[folder] in COMPOSE["volumes"]
    assert f"install -d -o durable -g durable -m 700 {folder}\n" in DOCKERFILE
