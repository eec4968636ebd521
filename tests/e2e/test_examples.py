"""Every file in examples/ runs as it stands."""

import subprocess
import sys
from pathlib import Path

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl, until
from tests.e2e.operator_process import OperatorProcess

WEB = Path(__file__).parents[2] / "examples" / "web.py"
TARGET = "webs.demo.dev/shop"


def test_web_is_a_whole_operator_in_under_forty_lines(cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> None:
    assert len(WEB.read_text().splitlines()) < 40
    subprocess.run([sys.executable, "-m", "konverge", "crds", str(WEB), "--dir", str(tmp_path / "crds")], check=True)
    cluster.kubectl("apply", "--server-side", "-f", str(tmp_path / "crds"))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/webs.demo.dev")

    with OperatorProcess(cluster, tmp_path / "log", str(WEB)) as operator:
        kubectl.apply(
            {
                "apiVersion": "demo.dev/v1",
                "kind": "Web",
                "metadata": {"name": "shop"},
                "spec": {"image": "registry.k8s.io/pause:3.10", "replicas": 2, "port": 8080},
            }
        )
        kubectl.wait_ready(TARGET)
        assert kubectl.get(TARGET)["status"]["readyReplicas"] == 2
        assert kubectl.get("service/shop")["spec"]["ports"][0]["targetPort"] == 8080

        kubectl.edit(TARGET, replicas=1)
        kubectl.wait_ready(TARGET)
        assert kubectl.get("deployment/shop")["spec"]["replicas"] == 1
        kubectl("delete", "service/shop")
        until(lambda: kubectl.get("service/shop"), "the Service again")
        kubectl("delete", TARGET)
        until(lambda: kubectl.get("deployment/shop") is None, "the Deployment's collection")
        assert operator.alive
