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
COLLECTOR: dict[str, Any] = YAML(typ="safe").load(ROOT / "deploy" / "otel-collector.yaml")


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
    """S14: a credential that one worker has stored is there for all others, also later ones.

    A new volume takes the owner and the mode of the image's folder, so the image has to have it.
    """
    (folder,) = re.findall(r"DURABLE_ADK_DATA_DIR=(\S+)", DOCKERFILE)
    mounts = dict(volume.split(":")[1::-1] for volume in COMPOSE["services"]["worker"]["volumes"])
    assert mounts[folder] in COMPOSE["volumes"]
    assert f"install -d -o durable -g durable -m 700 {folder}\n" in DOCKERFILE


def test_the_collector_has_what_its_pipelines_name() -> None:
    """D13: each component of a pipeline is defined, and each that is defined is used."""
    pipelines = COLLECTOR["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert {name for pipeline in pipelines for name in pipeline[kind]} == COLLECTOR[kind].keys()
        assert all(pipeline[kind] for pipeline in pipelines)


def test_the_collector_listens_where_it_is_looked_for() -> None:
    """D13: workers send, Jaeger gets, and Prometheus scrapes, by names and ports of the stack."""
    services = COMPOSE["services"]
    ports = {port.rpartition(":")[2] for port in services["otel-collector"]["ports"]}
    receiver = COLLECTOR["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    exporters = COLLECTOR["exporters"]
    listened = {receiver, exporters["prometheus"]["endpoint"]}
    assert {place.rpartition(":")[2] for place in listened} == ports
    sent = services["worker"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert sent == f"http://otel-collector:{receiver.rpartition(':')[2]}"
    assert exporters["otlp/jaeger"]["endpoint"].partition(":")[0] in services
