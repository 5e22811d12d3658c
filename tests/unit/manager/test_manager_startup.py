import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from ccm.startup import lazy_package_init

FAMILY = {
    "family/__init__.py": "print('family')\nfrom family import heavy\nname = 'Smith'\n",
    "family/heavy.py": "print('heavy')\n",
    "family/child/__init__.py": "print('child')\nfrom . import part\ndef __getattr__(x): return 2 * x\n",
    "family/child/part.py": "print('part')\nanswer = 42\n",
}
LATER = "from ccm.startup import lazy_package_init; lazy_package_init('family', 'family.child');"


def ran(program: str, *, path: Path | None = None) -> list[str]:
    """What a program prints, line by line."""
    lead = f"import sys; sys.path.insert(0, {str(path)!r})\n" if path else ""
    command = [sys.executable, "-c", lead + program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


@pytest.fixture
def family(tmp_path: Path) -> Path:
    for name, text in FAMILY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_part_is_had_without_the_packages_around_it(family: Path) -> None:
    assert ran(f"{LATER} import family.child.part as p; print(p.answer)", path=family) == ["part", "42"]


@pytest.mark.parametrize(
    "program", ["from family import name; print(name)", "import family; print(family.name)"]
)
def test_names_of_a_package_are_loaded_on_demand(family: Path, program: str) -> None:
    assert ran(f"{LATER} {program}", path=family) == ["family", "heavy", "Smith"]


def test_a_packages_own_way_to_look_up_names_is_kept(family: Path) -> None:
    program = f"{LATER} from family.child import ab; print(ab); from family.child import cd; print(cd)"
    assert ran(program, path=family) == ["child", "part", "abab", "cdcd"]


def test_a_name_that_a_package_lacks_is_an_error_as_always(family: Path) -> None:
    program = f"{LATER} import family\ntry: family.brother\nexcept AttributeError as error: print(error)"
    assert " ".join(ran(program, path=family)[2:]) == "module 'family' has no attribute 'brother'"


def test_a_thread_that_asks_while_it_runs_waits_for_the_name(family: Path) -> None:
    # It is waited for too little to hear that it had to wait, and long enough to hear that it failed at once.
    program = "import family, threading; answer = []\n"
    program += "other = threading.Thread(target=lambda: answer.append(family.name))\n"
    program += "other.start(); other.join(0.2)\nname = 'Smith'\n"
    (family / "family" / "__init__.py").write_text(program)
    ask = f"{LATER} import family; family.name; family.other.join(60); print(family.answer)"
    assert ran(ask, path=family) == ["['Smith']"]


def test_a_failed_import_says_why(family: Path) -> None:
    (family / "family" / "__init__.py").write_text("import nothing_like_this\n")
    ask = "\ntry: family.name\nexcept ModuleNotFoundError as error: print(error.name)\n"
    assert ran(f"{LATER} import family {ask} {ask}", path=family) == ["nothing_like_this"] * 2


def test_the_version_is_known_without_running_it() -> None:
    program = "from ccm.startup import lazy_package_init; lazy_package_init('charset_normalizer');"
    program += "from charset_normalizer import __version__; import sys;"
    program += "print(__version__, *(name for name in sys.modules if name.startswith('charset_normalizer')))"
    assert ran(program) == [version("charset_normalizer"), "charset_normalizer"]


def test_the_encoding_of_an_answer_is_still_guessed() -> None:
    program = "import ccm.hetzner.api, requests; answer = requests.Response();"
    program += "answer._content = 'Übergrößenträger'.encode('utf-16'); print(answer.apparent_encoding)"
    assert ran(program) == ["UTF-16"]


def test_there_is_no_such_package() -> None:
    with pytest.raises(ModuleNotFoundError, match="no package named 'nothing_like_this'"):
        lazy_package_init("nothing_like_this")


def test_the_manager_loads_neither_models_nor_api_classes_nor_other_clients() -> None:
    loaded = set(ran("import ccm.manager.command, ccm.hetzner, sys; print(*sys.modules)"))
    assert {"kubernetes.aio.client.rest", "hcloud", "ccm.hetzner.cloud"} <= loaded
    heavy = ("pydantic", "yaml", "oauthlib", "websocket", "dateutil.rrule", "cryptography")
    heavy += ("charset_normalizer.api", "opentelemetry", "ccm.manager.otel")
    unused = ("kubernetes.client", "kubernetes.aio.client.api", "kubernetes.aio.client.models")
    found = {name for name in loaded if any(f"{name}.".startswith(f"{one}.") for one in heavy + unused)}
    assert not found


@pytest.mark.slow
def test_the_package_is_still_whole_for_others() -> None:
    program = "import ccm.kube.transport, kubernetes; print(kubernetes.client.CoreV1Api.__name__);"
    program += "from kubernetes.aio import client, config;"
    program += "print(client.V1Node.__name__, config.load_config.__name__)"
    assert ran(program) == ["CoreV1Api", "V1Node", "load_config"]
