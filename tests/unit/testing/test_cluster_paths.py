"""Where the local cluster keeps its files, and which names it takes."""

import sys
from pathlib import Path

import pytest

from konverge.errors import ConfigError
from konverge.testing.loopback import HOST, free_ports
from konverge.testing.paths import cache_root, cluster_directory, go_sources, private_directory


def test_the_explicit_directory_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("KONVERGE_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_root() == tmp_path / "mine"
    monkeypatch.delenv("KONVERGE_CACHE_DIR")
    assert cache_root() == tmp_path / "xdg" / "konverge"


@pytest.mark.parametrize(
    ("platform", "expected"), [("linux", ".cache/konverge"), ("darwin", "Library/Caches/konverge")]
)
def test_else_the_platform_decides(
    platform: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("KONVERGE_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_root() == tmp_path / expected


@pytest.mark.parametrize("name", ["", "../up", "Upper", "-a", "a-", "a" * 41, "a/b", "a\n"])
def test_a_name_that_is_no_directory_of_ours_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="lower-case letters"):
        cluster_directory(name)


def test_private_directories_are_the_owners_alone(tmp_path: Path) -> None:
    assert private_directory(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_the_checkout_has_the_sources() -> None:
    found = go_sources()
    assert found is not None
    assert (found / "go.sum").is_file()


def test_ports_are_different_and_free() -> None:
    import socket  # noqa: PLC0415 - only here

    ports = free_ports(8)
    assert len(set(ports)) == 8
    for port in ports:
        with socket.socket() as each:
            each.bind((HOST, port))
