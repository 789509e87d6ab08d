"""What `make dist` builds, installed as a user would: into an empty environment."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, **options: object) -> str:
    """Run a command to its end; its standard output."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    targets = ["--target", "sdist", "--target", "wheel"]
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, *targets, cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def names(wheel: Path) -> set[str]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_package_alone(built):
    """The package with its types, the demo's agent, and nothing of the repository around it."""
    found = names(built[0])
    tops = {name.partition("/")[0] for name in found}
    assert {top.partition("-")[0] for top in tops} == {"durable_adk"}
    assert "durable_adk/py.typed" in found
    assert "durable_adk/_examples/capital_agent/agent.py" in found
    shipped = run("git", "ls-files", "durable_adk", cwd=ROOT).split()
    assert set(shipped) <= found


def test_the_source_distribution_makes_the_same_wheel(built, tmp_path):
    """Whoever builds from the sdist gets what is published."""
    wheel, sdist = built
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", tmp_path]
    run(sys.executable, "-m", "pip", "wheel", *options, sdist)
    (again,) = tmp_path.glob("*.whl")
    assert names(again) == names(wheel)


@pytest.mark.sampled(6)
@pytest.mark.timeout(900)
def test_the_wheel_runs_the_demo_in_an_empty_environment(built, tmp_path):
    """Without the checkout, dev tools, extras or settings, `durable-adk demo` works.

    An extra that is installed later by its name comes without another package of ours.
    """
    # With the pip of this environment, and compiling what is used only: a third of the time.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    scripts = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "install")
    run(*pip, "--quiet", "--disable-pip-version-check", "--no-compile", built[0])
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
    environment = kept | {"HOME": str(home), "PATH": os.defpath}
    out = run(scripts / "durable-adk", "demo", cwd=home, env=environment)
    assert "0  duplicates" in out
    assert "1  trips booked" in out
    more = run(*pip, "--dry-run", "durable-adk[redis]")
    (added,) = (line for line in more.splitlines() if line.startswith("Would install"))
    assert "redis-" in added
    assert "durable" not in added
