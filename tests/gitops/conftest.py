"""Argo CD, built once from its Go module, on a local cluster that starts empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from konverge.errors import ToolsMissing
from tests.gitops.program import Program, find_program
from tests.gitops.world import World, empty_world

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def program() -> Program:
    """Argo CD's programs. Skips only where there is no Go to build them with."""
    try:
        return find_program()
    except ToolsMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def synced(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Both Applications synced into an empty cluster, in which no operator runs yet."""
    with empty_world(program, tmp_path_factory.mktemp("gitops")) as world:
        world.introduce()
        yield world


@pytest.fixture(scope="module")
def world(synced: World) -> Iterator[World]:
    """The same with the operator at work, and all resources Healthy."""
    with synced.operator():
        synced.resources.wait_health("Healthy")
        yield synced
