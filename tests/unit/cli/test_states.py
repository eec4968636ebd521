"""`konverge states`: the diagram of a kind, by any of its names; and what it says where there is none."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from konverge.cli.states import states

MODULE = '''
from konverge import CustomResource, Phase, Spec, Status


class Link(
    CustomResource[Spec, Status],
    group="demo.dev",
    version="v1",
    short_names=["ln"],
    phases=[Phase("Pending", to=("Up",)), Phase("Up")],
):
    """Leads somewhere."""


class Plain(CustomResource[Spec, Status], group="demo.dev", version="v1"):
    """Stands still."""
'''


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "links.py"
    path.write_text(MODULE)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(states, arguments)


@pytest.mark.parametrize("name", ["Link", "link", "links", "Links", "ln", "links.demo.dev"])
def test_a_kind_goes_by_all_of_its_names(module: str, name: str) -> None:
    result = run(name, module)
    assert result.exit_code == 0
    assert "Pending --> Up" in result.output


def test_a_kind_of_ones_own_needs_its_module() -> None:
    assert str(run("link").exception) == (
        "no kind 'link' of Konverge's own (known: Database, SchedulingPolicy); "
        "name the module it is in: konverge states link MODULE"
    )


def test_a_kind_that_the_module_does_not_have_is_told_with_those_that_it_has(module: str) -> None:
    said = str(run("wheel", module).exception)
    assert said.startswith(f"no kind 'wheel' in {module} (known: Link, Plain); name the module it is in")


def test_a_kind_without_phases_is_told_how_to_declare_them(module: str) -> None:
    assert str(run("plain", module).exception) == (
        "Plain declares no phases; add phases=[Phase(...)] to its class line"
    )
