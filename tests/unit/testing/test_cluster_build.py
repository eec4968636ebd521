"""Building the control plane once for each state of its inputs; a shell script stands in for Go."""

import io
import threading
from pathlib import Path

import pytest

from konverge.errors import BuildFailed, ConfigError
from konverge.testing.build import Count, build, build_command, cached_binary, input_hash, kubernetes_version
from konverge.testing.processes import start_time, wait_for
from konverge.testing.progress import Progress

OUTPUT = r"""
while [ "$1" != -o ]; do [ "$1" = list ] && { printf 'a\nb\nc\n'; exit 0; }; shift; done
"""


def go(tmp_path: Path, script: str) -> Path:
    """A `go` that lists three packages, and builds by `script`, in which $2 is the output file."""
    path = tmp_path / "go"
    path.write_text(f"#!/bin/sh\n{OUTPUT}\n{script}\n")
    path.chmod(0o700)
    return path


@pytest.fixture
def progress() -> Progress:
    return Progress("Build", stream=io.StringIO())


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "stages/pod.yaml"])
def test_every_input_counts(sources: Path, name: str) -> None:
    before = input_hash(sources)
    assert input_hash(sources) == before
    (sources / name).write_text("else\n")
    assert input_hash(sources) != before


def test_a_renamed_input_counts_and_other_files_do_not(sources: Path) -> None:
    before = input_hash(sources)
    (sources / "README.md").write_text("text")
    assert input_hash(sources) == before
    (sources / "main.go").rename(sources / "other.go")
    assert input_hash(sources) != before


def test_the_binary_reports_the_version_that_go_mod_pins(sources: Path) -> None:
    version = kubernetes_version(sources)
    assert version == "v1.36.3"
    stamped = " ".join(build_command(Path("go"), version, Path("out")))
    assert "version.gitVersion=v1.36.3" in stamped
    assert "version.gitMajor=1" in stamped
    assert "version.gitMinor=36" in stamped


def test_a_module_without_kubernetes_is_refused(sources: Path) -> None:
    (sources / "go.mod").write_text("module m\n")
    with pytest.raises(ConfigError, match=r"does not require k8s\.io/kubernetes"):
        kubernetes_version(sources)


def test_a_build_lands_in_the_cache_and_is_not_repeated(
    cache_dir: Path, sources: Path, tmp_path: Path, progress: Progress
) -> None:
    builder = go(tmp_path, f'echo once >> "{tmp_path}/runs"; echo binary > "$2"')
    binary = build(sources, builder, progress)
    assert binary == cached_binary(sources)
    assert binary.is_relative_to(cache_dir)
    assert build(sources, builder, progress) == binary
    assert (tmp_path / "runs").read_text() == "once\n"
    assert [path.name for path in binary.parent.iterdir()] == ["localcluster"]


def test_another_module_has_a_binary_of_its_own_name(
    cache_dir: Path, sources: Path, tmp_path: Path, progress: Progress
) -> None:
    binary = build(sources, go(tmp_path, 'echo binary > "$2"'), progress, "other")
    assert binary == cached_binary(sources, "other")
    assert [path.name for path in binary.parent.iterdir()] == ["other"]


def test_two_builds_at_once_become_one(cache_dir: Path, sources: Path, tmp_path: Path, progress: Progress) -> None:
    builder = go(tmp_path, f'echo once >> "{tmp_path}/runs"; echo binary > "$2"')
    threads = [threading.Thread(target=build, args=(sources, builder, progress)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cached_binary(sources).read_text() == "binary\n"
    assert (tmp_path / "runs").read_text() == "once\n"


def test_a_failed_build_shows_its_last_lines_and_caches_nothing(
    cache_dir: Path, sources: Path, tmp_path: Path, progress: Progress
) -> None:
    builder = go(tmp_path, 'seq 100 >&2; echo half > "$2"; echo "./main.go:1: broken" >&2; exit 3')
    with pytest.raises(BuildFailed) as caught:
        build(sources, builder, progress)
    text = str(caught.value)
    assert "ended with 3" in text
    assert text.endswith("100\n./main.go:1: broken\n")
    assert "\n50\n" not in text
    assert list(cached_binary(sources).parent.iterdir()) == []


def test_an_interrupted_build_ends_the_compilers_and_caches_nothing(
    cache_dir: Path, sources: Path, tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = go(tmp_path, f'echo half > "$2"; sleep 1000 & echo $! > "{tmp_path}/compiler"; echo a/package; wait')

    def interrupt(count: Count, line: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Count, "line", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build(sources, builder, progress)
    compiler = int((tmp_path / "compiler").read_text())
    assert wait_for(lambda: start_time(compiler) is None, 10)
    assert list(cached_binary(sources).parent.iterdir()) == []


def test_progress_counts_modules_then_packages() -> None:
    count = Count()
    assert str(count) == "starting"
    count.line("go: downloading k8s.io/api v0.36.3")
    assert str(count) == "1 modules fetched"
    for line in ("internal/goarch", "k8s.io/api/core/v1", "# command-line-arguments", "\tmain.go:1: broken", ""):
        count.line(line)
    assert str(count) == "2 packages compiled"
    count.total = 2000
    assert str(count) == "2 of at most 2000 packages compiled"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_one_line_rewritten() -> None:
    stream = Terminal()
    shown = Progress("Build", stream=stream, monotonic=iter([0, 61, 61, 125, 125, 125]).__next__)
    shown.show("long text")
    shown.show("text")
    assert stream.getvalue() == "\rBuild: 1:01, long text\rBuild: 2:05, text     "


def test_a_log_sees_a_line_now_and_then() -> None:
    stream = io.StringIO()
    now = 0.0
    shown = Progress("Build", stream=stream, monotonic=lambda: now)
    for now in (0.0, 1.0, 14.9, 15.0, 29.0, 31.0):
        shown.show(f"at {now}")
    shown.finish("done")
    assert stream.getvalue() == "Build: 0:00, at 0.0\nBuild: 0:15, at 15.0\nBuild: 0:31, at 31.0\nBuild: 0:31, done\n"
