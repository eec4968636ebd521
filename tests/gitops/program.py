"""Argo CD's programs: in, the Go module in `argocd/`; out, one binary and the CRDs of its version, cached as the local cluster is.

`python -m tests.gitops.program` builds ahead of the first use.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yaml import safe_load_all

from konverge.errors import BuildFailed, KonvergeError, ToolsMissing
from konverge.testing.build import build, cached_binary
from konverge.testing.gotool import find_go, go_environment, required_version
from konverge.testing.paths import private_directory
from konverge.testing.progress import Progress

SOURCES = Path(__file__).parent / "argocd"
MODULE = "github.com/argoproj/argo-cd/v3"
BINARY = "argocd"
CRDS = ("application-crd.yaml", "appproject-crd.yaml")


@dataclass(frozen=True)
class Program:
    """The binary; `crds` are the manifests of Argo CD's own kinds."""

    binary: Path

    @property
    def crds(self) -> list[Path]:
        return [self.binary.with_name(name) for name in CRDS]

    def command(self, component: str, *arguments: str) -> list[str]:
        """How to run one of its components."""
        return [str(self.binary), component, *arguments]

    def run(self, component: str, *arguments: str) -> str:
        """Run a component and return what it printed. Raises: AssertionError with what it complained of."""
        result = subprocess.run(self.command(component, *arguments), capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{component} {' '.join(arguments)}: {result.stderr}"
        return result.stdout

    def build(self, directory: Path) -> list[dict[str, Any]]:
        """The objects that kustomize builds of a directory."""
        return [obj for obj in safe_load_all(self.run("kustomize", "build", str(directory))) if obj]


def find_program() -> Program:
    """The program from the cache, or built now. Raises: ToolsMissing where there is no Go; BuildFailed."""
    program = Program(cached_binary(SOURCES, BINARY))
    if all(path.is_file() for path in (program.binary, *program.crds)):
        return program
    tried: list[str] = []
    go = find_go(required_version((SOURCES / "go.mod").read_text()), tried)
    if go is None:
        raise ToolsMissing("Argo CD is built with Go, and there is none: " + "; ".join(tried))
    _copy_crds(go, program.crds)
    build(SOURCES, go, Progress("Building Argo CD (once, some minutes)"), BINARY)
    return program


def _copy_crds(go: Path, targets: Sequence[Path]) -> None:
    command = [str(go), "mod", "download", "-json", MODULE]
    result = subprocess.run(command, cwd=SOURCES, env=go_environment(), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailed(f"`{' '.join(command)}` in {SOURCES} failed: {result.stdout}{result.stderr}")
    manifests = Path(json.loads(result.stdout)["Dir"]) / "manifests" / "crds"
    for target in targets:
        private_directory(target.parent)
        shutil.copyfile(manifests / target.name, target)


def main() -> int:
    """Build, or find, the binary and print its path; without Go say that the tests will skip."""
    try:
        print(find_program().binary)  # noqa: T201 - this is a command
    except ToolsMissing as missing:
        print(f"{missing}: tests/gitops will skip")  # noqa: T201 - this is a command
    except KonvergeError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a command
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
