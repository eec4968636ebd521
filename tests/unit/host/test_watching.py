"""Files that change under a running process."""

import os
from pathlib import Path

import pytest

from konverge.host.watching import FileWatch


def test_a_change_of_content_is_told_once_and_a_touch_is_not(tmp_path: Path) -> None:
    path, told = tmp_path / "config", []
    path.write_text("a")
    watch = FileWatch([path], lambda: told.append(path.read_text()))
    watch.look()
    os.utime(path, (1, 1))
    watch.look()
    assert told == []
    path.write_text("b")
    watch.look()
    watch.look()
    assert told == ["b"]


def test_a_file_that_goes_and_comes_is_a_change_each_time(tmp_path: Path) -> None:
    path, told = tmp_path / "config", []
    watch = FileWatch([path], lambda: told.append(path.exists()))
    path.write_text("a")
    watch.look()
    path.unlink()
    watch.look()
    assert told == [True, False]


def test_a_callback_that_fails_does_not_end_the_watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, told = tmp_path / "config", []

    def change() -> None:
        told.append(path.read_text())
        if told == ["a"]:
            raise ValueError("bad")

    watch = FileWatch([path], change)
    for text in ("a", "b"):
        path.write_text(text)
        watch.look()
    assert told == ["a", "b"]
    assert "could not take over the change" in caplog.text
