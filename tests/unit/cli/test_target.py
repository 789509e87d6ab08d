import os
import sys
from textwrap import dedent
from types import SimpleNamespace

import pytest

from durable_adk import settings
from durable_adk.cli.server import load_app
from durable_adk.cli.target import agents_in, load_target
from durable_adk.errors import AgentDefinitionError
from durable_adk.models._gemini_errors import to_error

AGENT = "from types import SimpleNamespace\nroot_agent = SimpleNamespace(name='a', sub_agents=[])\n"


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch, tmp_path):
    """What a test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def write(path: str, text: str = AGENT) -> str:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return str(file)

    return write


def failure(target: str) -> str:
    with pytest.raises(AgentDefinitionError) as caught:
        load_target(target)
    return str(caught.value)


@pytest.mark.parametrize("target", ["trips", "trips/", "trips/agent.py", "trips.agent", "./trips"])
def test_every_way_to_name_a_folder(write, target):
    """A folder, its agent.py and its dotted module all lead to the same agent."""
    source = write("trips/agent.py")
    loaded = load_target(target)
    assert loaded.value.name == "a"
    assert loaded.source == source
    assert loaded.module == "trips.agent"
    assert loaded.name == ("agent" if target == "trips.agent" else "trips")


@pytest.mark.parametrize("init", ["", "from . import agent", "from .agent import root_agent"])
def test_a_package_may_import_relatively(write, init):
    """ADK's folder layouts work: with any __init__.py, and with relative imports (APP-1)."""
    write("trips/__init__.py", init)
    write("trips/parts.py")
    write("trips/agent.py", "from .parts import root_agent")
    assert load_target("trips").value.name == "a"
    assert load_target("trips/agent.py").name == "trips"


def test_a_module_package_leads_to_its_agent(write):
    """A dotted package without an agent of its own means its agent module."""
    write("inside/trips/__init__.py", "")
    write("inside/trips/agent.py")
    loaded = load_target("inside.trips")
    assert (loaded.name, loaded.module) == ("trips", "inside.trips.agent")


def test_a_file_is_imported_as_a_script_would_be(write):
    """A plain file finds its neighbours; its name becomes a valid app name."""
    write("lonely/neighbour.py")
    loaded = load_target(write("lonely/1st-try!.py", "from neighbour import root_agent"))
    assert loaded.name == "st-try_"


def test_a_file_in_a_package_belongs_to_it(write):
    """A file in a package can import from the package."""
    write("outer/__init__.py", "")
    write("outer/parts.py")
    loaded = load_target(write("outer/trip.py", "from .parts import root_agent"))
    assert (loaded.name, loaded.module) == ("trip", "outer.trip")


def test_an_app_comes_before_an_agent(write):
    """An app is preferred and names itself (APP-1)."""
    write("trips/agent.py", AGENT + "app = SimpleNamespace(name='mine', root_agent=root_agent)")
    loaded = load_target("trips")
    assert loaded.name == loaded.value.name == "mine"


def test_a_web_application_is_no_app(write):
    """An `app` without a root_agent is somebody else's, and the root_agent is used."""
    write("trips/agent.py", AGENT + "app = SimpleNamespace(name='web')")
    loaded = load_target("trips")
    assert (loaded.name, loaded.value.name) == ("trips", "a")


@pytest.mark.parametrize(
    ("folder", "name"), [("user", "user_app"), ("größe", "gr__e"), ("_", "agent_app")]
)
def test_a_name_is_made_valid(write, folder, name):
    """An app name holds letters, digits, _ and -, starts with a letter, and is not user (APP-1)."""
    write(f"{folder}/agent.py")
    assert load_target(folder).name == name


def test_nothing_there(write):
    """A target that is nothing is named with what was looked for."""
    assert "nowhere/agent.py" in failure("nowhere/agent.py")
    assert "does not exist" in failure("nowhere/agent.py")
    assert "no such folder or file here, and no module 'nowhere'" in failure("nowhere")
    assert "is not a Python file" in failure(write("notes.txt", ""))
    assert "is not a Python file" in failure("notes.txt")  # which might be a module's name


def test_a_folder_of_agents_is_not_an_agent(write):
    """For the parent of agent folders, the error proposes the folders."""
    write("agents/trips/agent.py")
    message = failure("agents")
    assert "neither agent.py nor __init__.py" in message
    assert "did you mean trips in it?" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nraise ValueError('bad tool')", "agent.py:2: ValueError: bad tool"),
        ("import json\njson.loads('{')", "agent.py:2: JSONDecodeError"),
        ("\nimport not_installed", "agent.py:2: ModuleNotFoundError: No module named"),
        ("x = (", "agent.py:1: SyntaxError"),
        ("import sys\nsys.exit(7)", "agent.py:2: SystemExit: 7"),
        ("raise KeyboardInterrupt", "agent.py:1: KeyboardInterrupt"),
    ],
)
def test_a_failing_import_shows_the_users_line(write, text, said):
    """An error of the user's module keeps its cause, and points at the user's own line."""
    write("trips/agent.py", text)
    with pytest.raises(AgentDefinitionError) as caught:
        load_target("trips")
    assert said in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_missing_library_names_the_projects_requirements(write):
    """If the project has a file of them, beside its agent or above."""
    write("trips/agent.py", "import not_installed")
    assert f"install the package that has it into {sys.prefix}" in failure("trips")
    file = write("trips/requirements.txt", "not-installed")
    assert failure("trips").endswith(f"; pip install -r {file}")


def test_a_misnamed_agent_is_recognised(write):
    """An agent under another name is named, with what to call it."""
    write("trips/agent.py", AGENT.replace("root_agent", "planner"))
    assert "its agent is called `planner`: name it `root_agent`" in failure("trips")


def test_a_module_without_agent_lists_what_it_has(write):
    """A module that defines neither says what it does define, without what it imported."""
    write("trips/agent.py", "import os\nfrom json import loads\nlimit = 3\ndef plan(): ...\n")
    assert "it defines limit, plan. Assign" in failure("trips")


def test_a_root_agent_that_is_none_is_told_so(write):
    """The name is there: what is wrong is its value."""
    write("trips/agent.py", "limit = 3\nroot_agent = None\n")
    assert failure("trips").endswith("`root_agent` is None.")


@pytest.mark.parametrize("folder", ["json", "a.b"])
def test_a_name_python_would_not_find_is_refused(write, folder):
    """A folder that Python cannot import under its name is an error about the name."""
    write(f"{folder}/agent.py")
    assert "rename the folder or file" in failure(folder + "/agent.py")


def test_two_folders_of_one_name(write):
    """A second folder of the same name is an error, not the first one's agent."""
    write("one/trips/agent.py")
    write("two/trips/agent.py", AGENT.replace("'a'", "'b'"))
    assert load_target("one/trips").value.name == "a"
    assert "one/trips" in failure("two/trips")


def test_values_are_whatever_was_found(write):
    """The value is the module's own object."""
    write("trips/agent.py")
    value = load_target("trips").value
    assert value is sys.modules["trips.agent"].root_agent
    assert type(value).__name__ == SimpleNamespace.__name__


@pytest.fixture
def environment(monkeypatch):
    """An environment of the test's own, in which no `.env` file was read before."""
    monkeypatch.setattr(os, "environ", {"FROM_SHELL": "shell", "PATH": os.environ["PATH"]})
    monkeypatch.setattr(settings, "_searched", {})
    settings._environment.cache_clear()
    yield os.environ
    settings._environment.cache_clear()


READING = "import os\nfrom types import SimpleNamespace\n\nKEY = os.environ['TRIP_KEY']\n" + AGENT


@pytest.mark.parametrize("place", ["trips/.env", ".env"])
def test_the_env_file_is_read_before_the_agent(write, environment, capsys, place):
    """The nearest file in the folder or above sets what is not set, and is named without values."""
    file = write(place, "TRIP_KEY=secret-5e1f\nFROM_SHELL=file\nexport EMPTY=\n")
    write("trips/agent.py", READING)
    load_target("trips")
    assert (environment["TRIP_KEY"], environment["FROM_SHELL"]) == ("secret-5e1f", "shell")
    said = capsys.readouterr().err
    assert f"Environment from {file}: TRIP_KEY, EMPTY\n" == said


def test_a_nearer_env_file_hides_one_above(write, environment, capsys):
    """As in ADK one file is read, not all; of two agents the later one's file wins."""
    write(".env", "TRIP_KEY=above\nONLY_ABOVE=1\n")
    write("trips/.env", "TRIP_KEY=near\n")
    write("trips/agent.py", READING)
    load_target("trips")
    assert environment["TRIP_KEY"] == "near"
    assert "ONLY_ABOVE" not in environment
    write("tours/.env", "TRIP_KEY=later\n")
    write("tours/agent.py", READING)
    load_target("tours")
    assert environment["TRIP_KEY"] == "later"


def test_our_own_variables_are_not_taken_from_an_env_file(write, environment, capsys):
    """They were read before any agent; a half-effective setting would be worse than a message."""
    write("trips/.env", "DURABLE_ADK_STORE=x\nTEMPORAL_ADDRESS=y\nTRIP_KEY=1\n")
    write("trips/agent.py", READING)
    load_target("trips")
    assert not {"DURABLE_ADK_STORE", "TEMPORAL_ADDRESS"} & set(environment)
    said = capsys.readouterr().err
    assert "set DURABLE_ADK_STORE, TEMPORAL_ADDRESS in the environment instead." in said


def test_env_files_can_be_switched_off_as_in_adk(write, environment):
    """ADK's variable is honoured."""
    environment["ADK_DISABLE_LOAD_DOTENV"] = "1"
    write("trips/.env", "TRIP_KEY=1\n")
    write("trips/agent.py")
    load_target("trips")
    assert "TRIP_KEY" not in environment


def test_a_missing_key_names_the_files_that_were_looked_at(write, environment, tmp_path):
    """Whoever has no key learns where it was looked for."""
    file = write("trips/.env", "OTHER=1\n")
    write("trips/agent.py")
    load_target("trips")
    missing = to_error(ValueError("Missing key inputs argument! provide API key"))
    assert f"{file} does not set it" in missing.message
    write("tours/agent.py")
    (tmp_path / "trips" / ".env").unlink()
    load_target("tours")
    missing = to_error(ValueError("Missing key inputs argument! provide API key"))
    assert f"no .env file is in {tmp_path / 'tours'} or above" in missing.message


def test_a_folder_of_agents_stands_for_all_of_them(tmp_path):
    """As `adk web` has it: folders that define an agent, and no others; other targets are alone."""
    for name, file in {"b": "agent.py", "a": "__init__.py", "shared": "__init__.py"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("root_agent = None" if name == "a" else "")
    (tmp_path / "__pycache__").mkdir()
    assert agents_in(str(tmp_path)) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert agents_in(str(tmp_path / "b")) == [str(tmp_path / "b")]
    assert agents_in(str(tmp_path / "shared")) == [str(tmp_path / "shared")]
    assert agents_in("a.module") == ["a.module"]


def test_agents_of_configs_are_among_those_of_a_folder(tmp_path):
    """A folder with a `root_agent.yaml` is an agent's, as one with an agent.py is."""
    for name in ("agent.py", "root_agent.yaml"):
        folder = tmp_path / name.partition(".")[2]
        folder.mkdir()
        (folder / name).touch()
    assert agents_in(str(tmp_path)) == [str(tmp_path / "py"), str(tmp_path / "yaml")]


def test_a_graph_is_found_and_one_of_another_name_is_told(write):
    """As an agent; the app has the name of the file."""
    head = "from durable_adk import Workflow\nfrom durable_adk.workflow import node\n"
    file = write("trip.py", f"{head}root_agent = Workflow(name='wf')\n")
    app = load_app(file)
    assert (app.name, app.root_agent.name) == ("trip", "wf")
    other = write("other.py", f"{head}flow = Workflow(name='wf')\n")
    assert "its agent is called `flow`: name it `root_agent`" in failure(other)
    wrong = write("wrong.py", "root_agent = len\n")
    with pytest.raises(AgentDefinitionError, match="a Workflow, or an App"):
        load_app(wrong)
