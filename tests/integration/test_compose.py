"""``docker-compose.yml``: is it one, and does each command line of ours in it work?

No container is started: our commands run as they stand there, with the same settings, on servers of
this machine. What other people's images do is theirs.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from durable_adk.embedded import TemporalServer
from durable_adk.worker import WorkerOptions
from tests.support.commands import EXAMPLE, ROOT, Terminal
from tests.support.deploy import host_environment
from tests.support.postgres import Databases
from tests.support.required import module
from tests.support.s3 import S3
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough

COMPOSE: dict[str, Any] = YAML(typ="safe").load(ROOT / "docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
UNPROBED = {"otel-collector"}
"""Whose image has nothing in it that could probe."""
PROGRAMS = Path(sys.executable).parent


def test_it_is_a_compose_file() -> None:
    """D13: the schema of the Compose specification has nothing to say about it."""
    done = subprocess.run(
        [
            PROGRAMS / "check-jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            "docker-compose.yml",
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_nothing_is_open_to_the_network() -> None:
    """S26: its passwords are known to everybody, so every port is of this machine only."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) >= 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_service_says_whether_it_is_well_and_what_it_needs() -> None:
    """What runs on has a probe; what is waited for exists, and so does every file and volume."""
    for name, service in SERVICES.items():
        once = service.get("restart", "").startswith("on-failure")
        assert "restart" in service, name
        assert ("healthcheck" in service) is not (once or name in UNPROBED), name
        for needed, how in service.get("depends_on", {}).items():
            probed = how["condition"] != "service_healthy" or "healthcheck" in SERVICES[needed]
            assert probed, (name, needed)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            found = (
                (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
            )
            assert found, (name, volume)
    worker = SERVICES["worker"]
    assert worker["depends_on"]["store-upgrade"]["condition"] == "service_completed_successfully"


def test_temporal_knows_the_dynamic_configuration() -> None:
    """D12: each key of it is one of the server that this package was tested with."""
    keys = YAML(typ="safe").load(ROOT / "deploy" / "temporal-dynamic.yaml")
    server = (PROGRAMS / "temporal").read_bytes().lower()
    assert [key for key in keys if key.lower().encode() not in server] == []


def postgres_programs() -> Path:
    """The folder of ``psql`` and its like."""
    postgres = module("campaign.postgres")
    return Path(postgres.POSTGRES_VERSIONS[postgres.TARGET_POSTGRES_VERSION])


class Stack:
    """The stack's servers, with the addresses that they have here."""

    def __init__(self, temporal: str, postgres: str, s3: str) -> None:
        self.addresses = {
            "temporal:7233": temporal,
            "127.0.0.1:7233": temporal,
            "postgres:5432": postgres,
            "127.0.0.1:5432": postgres,
            "s3:8333": s3,
            "127.0.0.1:8333": s3,
            # Nobody is there, which must stop nothing.
            "otel-collector:4318": "127.0.0.1:1",
            "127.0.0.1:4318": "127.0.0.1:1",
        }

    def settings(self, service: str) -> dict[str, str]:
        """The environment of a service, as compose makes it where nothing is set."""
        given = SERVICES[service]["environment"].items()
        return {name: self.here(text) for name, text in given if text is not None}

    def here(self, text: str) -> str:
        """A text with its variables at their defaults, and the addresses of here."""
        command = ["sh", "-c", f"cat <<END\n{text}\nEND"]
        text = subprocess.run(
            command, check=True, capture_output=True, text=True, env={}
        ).stdout.strip()
        for there, address in self.addresses.items():
            text = text.replace(there, address)
        return text

    def host(self) -> dict[str, str]:
        """The environment of a user with the variables of ``deploy/host.env``, and no ``.env``."""
        return {name: self.here(value) for name, value in host_environment(None).items()}


@pytest.fixture(scope="module")
async def stack(server: TemporalServer, postgres: Databases, s3_server: S3) -> Stack:
    """PostgreSQL as its image leaves it: with the init script run, by its own psql."""
    address = f"127.0.0.1:{postgres.server.port}"
    environment = {
        "PATH": f"{postgres_programs()}:{os.environ['PATH']}",
        "PGHOST": "127.0.0.1",
        "PGPORT": str(postgres.server.port),
        "POSTGRES_USER": "postgres",
        "STORE_PASSWORD": "durable_adk",
    }
    script = ["sh", ROOT / "deploy" / "postgres-init.sh"]
    await asyncio.to_thread(subprocess.run, script, env=environment, check=True)
    s3_server._send("PUT", "/durable-adk")
    return Stack(server.address, address, s3_server.endpoint.removeprefix("http://"))


def program(service: str) -> list[str]:
    """The arguments of ``durable-adk`` in a service, with the image's paths as they are here."""
    paths = {"/agents": str(ROOT / "examples")}
    return [
        paths.get(str(Path(text).parent), "") + "/" + Path(text).name
        if text.startswith("/")
        else text
        for text in SERVICES[service]["command"]
    ]


@pytest.mark.sampled(3)
def test_our_services_run_as_they_stand(stack: Stack, tmp_path: Path) -> None:
    """D13: upgrade, worker, its probe and a client of the host, with no settings but the file's."""
    terminal = Terminal(tmp_path)
    try:
        done = terminal.run(*program("store-upgrade"), **stack.settings("store-upgrade"))
        assert done.returncode == 0, done.stderr
        settings = stack.settings("worker")
        worker = terminal.start(*program("worker"), **settings)
        kind, name, *probe = SERVICES["worker"]["healthcheck"]["test"]
        assert (kind, name) == ("CMD", "durable-adk")
        until_true(lambda: terminal.run(*probe, **settings).returncode == 0)
        asked = terminal.run("run", EXAMPLE, "What is the capital of Peru?", **stack.host())
        assert "Lima" in asked.stdout, asked.stderr
        _, log = terminal.stop(worker, signal.SIGTERM)
        assert worker.returncode == 0
        grace = float(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
        assert WorkerOptions().graceful_shutdown.total_seconds() < grace
        assert "Traceback" not in log
    finally:
        terminal.close()


def test_the_scripts_of_postgresql_and_temporal_run(stack: Stack) -> None:
    """The namespace is made once, and the probe of PostgreSQL finds it."""
    host, port = stack.addresses["postgres:5432"].split(":")
    kind, *probe = SERVICES["postgres"]["healthcheck"]["test"]
    assert kind == "CMD"
    subprocess.run(
        [postgres_programs() / probe[0], *probe[1:], "-p", port], check=True, capture_output=True
    )
    environment = {
        **stack.settings("temporal-namespace"),
        "NAMESPACE": "compose",
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": os.environ["HOME"],
    }
    shell, script = SERVICES["temporal-namespace"]["entrypoint"]
    for _ in range(2):
        done = subprocess.run(
            [shell, ROOT / "deploy" / Path(script).name],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        )
    assert "168h" in done.stdout
    assert host == "127.0.0.1"
