"""What the unit tests of `konverge.testing` share."""

from pathlib import Path

import pytest


@pytest.fixture
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory, which the local cluster takes for the user's."""
    path = tmp_path / "cache"
    monkeypatch.setenv("KONVERGE_CACHE_DIR", str(path))
    return path


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A Go module as far as the build looks at one."""
    path = tmp_path / "module"
    (path / "stages").mkdir(parents=True)
    (path / "go.mod").write_text("module m\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n")
    (path / "go.sum").write_text("sum\n")
    (path / "main.go").write_text("package main\n")
    (path / "stages" / "pod.yaml").write_text("kind: Stage\n")
    return path
