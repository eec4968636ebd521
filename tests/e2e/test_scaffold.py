"""What `konverge new` makes works on a real API server: its own e2e test, and its manifests."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from konverge.cli.new import new
from konverge.testing import Cluster
from tests.e2e.shims import environment


def made(directory: Path) -> Path:
    project = directory / "greeter"
    arguments = ["greeter", "--kind", "Greeting", "--group", "scaffold.example.dev", "--dir", str(project)]
    result = CliRunner().invoke(new, arguments)
    assert result.exit_code == 0, result.output
    return project


def test_its_end_to_end_test_passes(cluster: Cluster, tmp_path: Path) -> None:
    project = made(tmp_path)
    variables = {
        **environment(cluster, tmp_path),
        "PYTHONPATH": str(project / "src"),
        "KONVERGE_TEST_KUBECONFIG": str(cluster.kubeconfig),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "e2e"]
    result = subprocess.run(command, cwd=project, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_the_server_takes_its_manifests(cluster: Cluster, tmp_path: Path) -> None:
    project = made(tmp_path)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "greeter-system"}}
    cluster.request("POST", "/api/v1/namespaces", home)
    try:
        applied = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-k", str(project / "config"))
    finally:
        cluster.delete_namespace("greeter-system")
    assert "deployment.apps/greeter serverside-applied" in applied
    assert len(applied.splitlines()) == 11
