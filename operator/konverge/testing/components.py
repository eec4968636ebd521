"""The command line of each component: in, a cluster's directory and ports; out, the flags that make it that cluster.

Everything listens on loopback only, and data is as durable as a test needs: etcd does not wait for the disk.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

from konverge.testing.certificates import Certificates
from konverge.testing.kubescheduler import BURST, QPS
from konverge.testing.loopback import HOST, free_ports


@dataclass(frozen=True)
class Ports:
    """Loopback ports; etcd is plain HTTP, so that the API server pays for no second encryption on the same machine."""

    etcd: int
    etcd_peer: int
    apiserver: int

    @classmethod
    def pick(cls) -> "Ports":
        return cls(*free_ports(3))


@dataclass(frozen=True)
class Layout:
    """The files of one cluster below `directory`."""

    directory: Path
    ports: Ports

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self.ports.apiserver}"

    @property
    def etcd(self) -> str:
        return f"http://{HOST}:{self.ports.etcd}"

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.directory / "certificates")

    @property
    def stages(self) -> Path:
        return self.directory / "stages"

    @property
    def scheduler_config(self) -> Path:
        return self.directory / "kube-scheduler.yaml"

    @property
    def scheduler_flags(self) -> Path:
        """Where it exists, it holds further flags of kube-scheduler's, one a line."""
        return self.directory / "kube-scheduler.flags"

    @property
    def audit_policy(self) -> Path:
        """Where it exists, the API server keeps an audit log."""
        return self.directory / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        return self.directory / "logs" / "audit.jsonl"

    def kubeconfig(self, client: str) -> Path:
        """The kubeconfig of one client certificate; the admin's is the one that people use."""
        return self.directory / ("kubeconfig" if client == "admin" else f"{client}.kubeconfig")

    def log(self, component: str) -> Path:
        return self.directory / "logs" / f"{component}.log"


def flags(component: str, layout: Layout, *, has_controllers: bool = True) -> list[str]:
    """The arguments of `component`. Without a controller manager nobody makes ServiceAccounts, so none is asked for."""
    return {
        "etcd": _etcd,
        "kube-apiserver": lambda layout: _apiserver(layout, has_controllers=has_controllers),
        "kube-controller-manager": _controller_manager,
        "kube-scheduler": _scheduler,
        "kwok": _kwok,
    }[component](layout)


def audit_policy() -> str:
    """The audit policy: who wrote what and when, each request once, without bodies."""
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
            {"level": "None"},
        ],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _audit(layout: Layout) -> list[str]:
    if not layout.audit_policy.exists():
        return []
    return [f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.audit_log}"]


def _etcd(layout: Layout) -> list[str]:
    peer = f"http://{HOST}:{layout.ports.etcd_peer}"
    return [
        "--name=local",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={layout.etcd}",
        f"--advertise-client-urls={layout.etcd}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def _apiserver(layout: Layout, *, has_controllers: bool) -> list[str]:
    certificates = layout.certificates
    return [
        f"--etcd-servers={layout.etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={layout.ports.apiserver}",
        f"--tls-cert-file={certificates.certificate('kube-apiserver')}",
        f"--tls-private-key-file={certificates.key('kube-apiserver')}",
        f"--client-ca-file={certificates.authority}",
        f"--service-account-key-file={certificates.service_account_public}",
        f"--service-account-signing-key-file={certificates.key('service-account')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",  # nobody serves the `kubernetes` Service's address here
        "--allow-privileged=true",
        "--profiling=false",
        "--shutdown-watch-termination-grace-period=2s",  # else a stop waits for the clients to end their watches
        *_audit(layout),
        *([] if has_controllers else ["--disable-admission-plugins=ServiceAccount"]),
    ]


def _controller_manager(layout: Layout) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={layout.certificates.key('service-account')}",
        f"--root-ca-file={layout.certificates.authority}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        f"--kube-api-qps={QPS}",
        f"--kube-api-burst={BURST}",
        "--profiling=false",
    ]


def _scheduler(layout: Layout) -> list[str]:
    further = layout.scheduler_flags
    return [
        f"--config={layout.scheduler_config}",
        "--secure-port=0",
        *(further.read_text().splitlines() if further.exists() else []),
    ]


def _kwok(layout: Layout) -> list[str]:
    stages = [f"--config={path}" for path in sorted(layout.stages.glob("*.yaml"))]
    return [
        f"--kubeconfig={layout.kubeconfig('admin')}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--cidr=10.244.0.0/16",
        "--node-port=0",  # its stand-in for the kubelet's server would listen on every interface
        *stages,
    ]
