"""Where everything of the local cluster lies on this machine: in, the environment; out, directories.

`<cache>/binaries/<hash>/` holds what was built, `<cache>/clusters/<name>/` one cluster (data, certificates, logs,
state), `<cache>/locks/` the locks, which outlive what they guard. What is made here is readable by the user only: it holds keys.
"""

import os
import re
import sys
from pathlib import Path

from konverge.errors import ConfigError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def cache_root() -> Path:
    """The user's cache directory for Konverge: `$KONVERGE_CACHE_DIR`, or the platform's custom."""
    if explicit := os.environ.get("KONVERGE_CACHE_DIR"):
        return Path(explicit).expanduser().absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser().absolute() / "konverge"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "konverge"
    return Path.home() / ".cache" / "konverge"


def binaries_root() -> Path:
    """The directory of built binaries, one directory a hash of their inputs."""
    return cache_root() / "binaries"


def clusters_root() -> Path:
    """The directory of clusters, one directory a name."""
    return cache_root() / "clusters"


def cluster_directory(name: str) -> Path:
    """The directory of the cluster `name`. Raises ConfigError for what cannot be a name."""
    if not _NAME.fullmatch(name):
        message = (
            f"{name!r} cannot name a cluster: use at most 40 lower-case letters, digits and '-', "
            "with a letter or a digit at both ends"
        )
        raise ConfigError(message)
    return clusters_root() / name


def lock_file(name: str) -> Path:
    """The file to lock for `name`; it lies outside of what it guards, so that replacing that keeps the lock."""
    return cache_root() / "locks" / f"{name}.lock"


def private_directory(path: Path) -> Path:
    """Make `path` and what is missing above it, readable by this user only; returns it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def go_sources() -> Path | None:
    """The Go module of the local cluster: beside `operator/` in a checkout, inside this package in a wheel."""
    here = Path(__file__).resolve()
    for candidate in (here.parent / "localcluster", here.parents[3] / "localcluster"):
        if (candidate / "go.mod").is_file():
            return candidate
    return None
