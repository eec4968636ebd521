"""From the Go module to the binary in the cache: in, the sources; out, the path of an executable that matches them.

The cache's key is a hash of everything that goes into the build, so a changed line builds anew and an unchanged tree
never does. `python -m konverge.testing.build` builds ahead of the first use.
"""

import hashlib
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from konverge.errors import BuildFailed, ConfigError, KonvergeError
from konverge.testing.gotool import go_environment
from konverge.testing.locking import locked
from konverge.testing.paths import binaries_root, lock_file, private_directory
from konverge.testing.progress import Progress

BINARY = "localcluster"
_PATTERNS = ("go.mod", "go.sum", "*.go", "stages/*.yaml")
_TICK = 1.0
_TAIL = 30


def input_hash(sources: Path) -> str:
    """A short hash over the names and contents of the build's inputs, and the platform."""
    digest = hashlib.sha256(f"{platform.system()}/{platform.machine()}\n".encode())
    for path in sorted({path for pattern in _PATTERNS for path in sources.glob(pattern)}):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(sources).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def cached_binary(sources: Path, name: str = BINARY) -> Path:
    """Where the binary of these sources lies once it is built, under that name."""
    return binaries_root() / input_hash(sources) / name


def kubernetes_version(sources: Path) -> str:
    """The Kubernetes version that go.mod pins, such as `v1.36.3`. Raises ConfigError without one."""
    found = re.search(r"k8s\.io/kubernetes (v\d+\.\d+\.\d+\S*)", (sources / "go.mod").read_text())
    if found is None:
        message = f"{sources / 'go.mod'} does not require k8s.io/kubernetes"
        raise ConfigError(message)
    return found[1]


def build_command(go: Path, version: str, output: Path) -> list[str]:
    """The `go build` for Kubernetes `version`, which the binary will report as its own."""
    major, minor = version.removeprefix("v").split(".")[:2]
    stamp = "k8s.io/component-base/version"
    flags = f"-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    return [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(output), "."]


def build(sources: Path, go: Path, progress: Progress, name: str = BINARY) -> Path:
    """The binary `name` of `sources`, built with `go` unless it is there; two builds at once become one.

    Raises BuildFailed with the tail of the compiler's output.
    """
    target = cached_binary(sources, name)
    with locked(lock_file(f"build-{target.parent.name}"), waiting=lambda: progress.show("another build is under way")):
        if target.is_file():
            return target
        private_directory(target.parent)
        fresh = target.with_name(f"{name}.{os.getpid()}.new")
        try:
            _compile(sources, build_command(go, kubernetes_version(sources), fresh), progress)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    progress.finish(f"built {target}")
    return target


class Count:
    """What the lines of `go build -v` add up to: modules fetched, then packages compiled out of a total."""

    def __init__(self) -> None:
        self.modules = 0
        self.packages = 0
        self.total: int | None = None

    def line(self, text: str) -> None:
        """Take one line of the build's output into account."""
        if text.startswith("go: downloading "):
            self.modules += 1
        elif text and not text.startswith(("#", "go: ", "\t")):
            self.packages += 1

    def __str__(self) -> str:
        if not self.packages:
            return f"{self.modules} modules fetched" if self.modules else "starting"
        return (
            f"{self.packages} of at most {self.total} packages compiled"
            if self.total
            else f"{self.packages} packages compiled"
        )


def _compile(sources: Path, command: list[str], progress: Progress) -> None:
    count = Count()
    with tempfile.TemporaryFile("w+") as log, _running(command, sources) as process:
        totals = threading.Thread(target=_count_total, args=(command[0], sources, count), daemon=True)
        totals.start()
        done = threading.Event()
        ticker = threading.Thread(target=_tick, args=(progress, count, done), daemon=True)
        ticker.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                count.line(line.rstrip("\n"))
            code = process.wait()
        finally:
            done.set()
            ticker.join()
        if code != 0:
            log.seek(0)
            tail = "".join(log.readlines()[-_TAIL:])
            message = f"`{' '.join(command)}` in {sources} ended with {code}:\n{tail}"
            raise BuildFailed(message)


def _tick(progress: Progress, count: Count, done: threading.Event) -> None:
    while True:
        progress.show(str(count))
        if done.wait(_TICK):
            return


def _count_total(go: str, sources: Path, count: Count) -> None:
    listing = subprocess.run(  # noqa: S603 - no shell
        [go, "list", "-deps", "."], cwd=sources, env=go_environment(), capture_output=True, text=True, check=False
    )
    if listing.returncode == 0:
        count.total = len(listing.stdout.splitlines())


@contextmanager
def _running(command: list[str], directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The command as a process that does not outlive the block, however the block ends."""
    process = subprocess.Popen(  # noqa: S603 - no shell
        command,
        cwd=directory,
        env=go_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a group of its own, so that its compilers end with it
    )
    with process:
        try:
            yield process
        except BaseException:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            raise


def main() -> int:
    """Build, or find, the binary and print its path."""
    from konverge.testing.binaries import local_binary  # noqa: PLC0415 - binaries imports this module

    try:
        print(local_binary())  # noqa: T201 - this is a command
    except KonvergeError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
