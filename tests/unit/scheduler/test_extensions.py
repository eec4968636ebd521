"""Plugins in packages of their own: found by their entry points, used by name, and harmless when they are broken."""

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from konverge.errors import InvalidPluginArgs
from konverge.scheduler import Registry
from konverge.scheduler.extensions import GROUP, installed, load
from konverge.testing.sim import Sim, run_sim
from tests.samples.installing import install
from tests.unit.scheduler.clusters import node, pod, running, with_plugin


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sample package."""
    target = tmp_path_factory.mktemp("site")
    install(target)
    return target


@pytest.fixture
def importable(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is installed for this process, and then is not."""
    monkeypatch.syspath_prepend(str(site))
    installed.cache_clear()
    yield
    installed.cache_clear()
    sys.modules.pop("quiet_nodes", None)


@pytest.mark.usefixtures("importable")
def test_an_installed_plugin_is_used_by_its_name() -> None:
    async def scenario(sim: Sim) -> None:
        busy = [pod(f"busy{i}", on="a") for i in range(2)]
        cluster = await running(
            sim, node("a"), node("b"), *busy, profile=with_plugin("QuietNodes", maxPods=2, weight=100)
        )
        await cluster.create(pod("one"))
        await cluster.create(pod("two"))
        assert set(await cluster.placed("one", "two")) == {"b"}
        await cluster.create(pod("three"))
        await sim.until(lambda: cluster.condition("three").get("status") == "False")
        assert "2 node(s) were not quiet" in cluster.condition("three")["message"]

    run_sim(scenario, seed=1)


@pytest.mark.usefixtures("importable")
def test_it_is_listed_with_the_others_and_its_arguments_are_checked() -> None:
    registry = Registry.default()
    assert "QuietNodes" in registry.names
    assert "NodeResourcesFit" in registry.names
    with pytest.raises(
        InvalidPluginArgs, match="plugin QuietNodes: maxPods: Input should be greater than or equal to 1"
    ):
        registry.check_args("QuietNodes", {"maxPods": 0})


def test_without_the_package_nobody_knows_it() -> None:
    assert "QuietNodes" not in Registry.default().names


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module whose import ends the process, were it not for us."""
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("leaving", None)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:Plugin", "its import failed: ModuleNotFoundError: No module named 'no_such_module'"),
        ("leaving:Plugin", "its import failed: SystemExit: 3"),
        ("json:Plugin", "its import failed: AttributeError"),
        ("json:dumps", "it is no class that derives from Plugin and has a name"),
        ("konverge.scheduler.framework:Filter", "it is no class that derives from Plugin and has a name"),
    ],
)
def test_what_cannot_be_used_is_named_and_left_out(value: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    good = EntryPoint("NodeName", "konverge.scheduler.plugins.node_name:NodeName", GROUP)
    found = load([EntryPoint("Odd", value, GROUP), good])
    assert [extension.plugin.name for extension in found] == ["NodeName"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(
        f"the scheduler plugin of an unknown package (Odd = {value}) is left out: {why}"
    )


def test_one_that_takes_a_name_and_version_that_are_taken_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    again = load([EntryPoint("NodeName", "konverge.scheduler.plugins.node_name:NodeName", GROUP)])
    monkeypatch.setattr("konverge.scheduler.registry.installed", lambda: again)
    assert "NodeName" in Registry.default().names
    assert "NodeName = konverge.scheduler.plugins.node_name:NodeName) is left out" in caplog.text
    assert "registered already with version v1" in caplog.text
