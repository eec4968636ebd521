"""An environment in which commands find the test's cluster, this Python's tools, and a kubectl."""

import os
import sys
from pathlib import Path

from konverge.testing import Cluster


def environment(cluster: Cluster, directory: Path) -> dict[str, str]:
    """`directory` gets a `bin` with a kubectl: the local cluster's stands in one binary with everything else."""
    kubectl = directory / "bin" / "kubectl"
    kubectl.parent.mkdir(exist_ok=True)
    kubectl.write_text(f'#!/bin/sh\nexec {" ".join(cluster.kubectl_command())} "$@"\n')
    kubectl.chmod(0o755)
    path = os.pathsep.join([str(kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
