"""Importing the user's modules, and what is said when that fails."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import kopf
import pytest

from konverge.errors import ConfigError
from konverge.host.modules import LoadedModules, load_modules

HANDLER = "import kopf\n@kopf.on.event('v1', 'configmaps')\ndef seen(**_): pass\n"
STARTUP = "import kopf\n@kopf.on.startup()\ndef begin(**_): pass\n"


@pytest.fixture(autouse=True)
def undone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Puts back what imports change in the interpreter, and kopf's default registry."""
    before, registry = set(sys.modules), kopf.get_default_registry()
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    kopf.set_default_registry(registry)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("text", "found"), [(HANDLER, True), (STARTUP, False), ("value = 1\n", False)])
def test_only_handlers_of_resources_count_as_such(tmp_path: Path, text: str, found: bool) -> None:
    assert load_modules([write(tmp_path / "handlers.py", text)]).has_resource_handlers is found


def test_handlers_go_into_a_registry_of_this_load_alone(tmp_path: Path) -> None:
    first = load_modules([write(tmp_path / "handlers.py", HANDLER)])
    second = load_modules([])
    assert first.has_resource_handlers
    assert not second.has_resource_handlers
    assert kopf.get_default_registry() is second.registry
    assert LoadedModules().registry is not second.registry


def test_a_file_is_imported_under_its_name_with_its_neighbours_in_reach(tmp_path: Path) -> None:
    write(tmp_path / "neighbour_of_it.py", "value = 42\n")
    loaded = load_modules([write(tmp_path / "imports_it.py", "from neighbour_of_it import value\n")])
    assert [(module.__name__, module.value) for module in loaded.modules] == [("imports_it", 42)]
    assert sys.modules["imports_it"] is loaded.modules[0]


def test_files_of_one_name_are_modules_of_their_own_and_no_module_is_replaced(tmp_path: Path) -> None:
    paths = [write(tmp_path / directory / "json.py", f"value = {directory!r}\n") for directory in ("a", "b")]
    loaded = load_modules(paths)
    assert [module.value for module in loaded.modules] == ["a", "b"]
    assert hasattr(sys.modules["json"], "dumps")


def test_a_target_given_twice_is_imported_once(tmp_path: Path) -> None:
    path = write(tmp_path / "once.py", "value = 1\n")
    assert len(load_modules([path, str(Path(path).parent / "." / "once.py")]).modules) == 1


def test_a_dotted_name_is_looked_for_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "company_operators" / "widgets.py", HANDLER)
    monkeypatch.chdir(tmp_path)
    assert load_modules(["company_operators.widgets"]).has_resource_handlers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = 1 / 0\n", "its import failed: ZeroDivisionError: division by zero (at {path}:2)"),
        ("import not_there_at_all\n", "its import failed: ModuleNotFoundError: No module named 'not_there_at_all' (at"),
        ("def f(:\n", "syntax error at {path}:1: "),
        ("import sys\nsys.exit(3)\n", "a module must not exit or run an operator when imported"),
        ("import kopf\nkopf.on.nothing()\n", "its import failed: AttributeError: "),
    ],
)
def test_a_failed_import_names_the_file_the_error_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "broken.py", text)
    with pytest.raises(ConfigError, match=re.escape(message.format(path=path))) as caught:
        load_modules([path])
    assert str(caught.value).startswith(f"module {path}: ")
    assert "broken" not in sys.modules


def test_a_dotted_module_that_fails_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "present_package" / "broken.py", "import not_there_at_all\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="its import failed: ModuleNotFoundError: No module named 'not_there_at_all'"):
        load_modules(["present_package.broken"])
    with pytest.raises(ConfigError, match=r"no module named 'present_package.absent' is importable; install it"):
        load_modules(["present_package.absent"])


def test_what_is_no_python_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.py: does not exist; give the path of a .py file"):
        load_modules([str(tmp_path / "absent.py")])
    with pytest.raises(ConfigError, match=r"is not a .py file; give"):
        load_modules([str(tmp_path)])
