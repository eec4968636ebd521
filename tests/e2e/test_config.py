"""config/ as a user applies it: each overlay builds, the API server takes it, and the pods may run where Pod Security is
enforced as `restricted`.
"""

from typing import Any

import pytest
import yaml

from konverge.testing import Cluster
from tests.e2e.kubectl import Kubectl
from tests.e2e.shipped import NAMESPACE, OVERLAYS, Manifest, built, find

pytestmark = pytest.mark.usefixtures("crds")


def pod_of(owner: Manifest, name: str) -> Manifest:
    """A pod as the controller of `owner` makes it."""
    template = owner["spec"]["template"]
    spec = {**template["spec"], "serviceAccountName": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_builds_and_the_api_server_takes_it(cluster: Cluster, system: Kubectl, overlay: str) -> None:
    manifests = built(cluster, overlay)
    text = yaml.safe_dump_all(manifests)
    said = system("apply", "--server-side", "--dry-run=server", "--filename", "-", input=text)
    assert len(said.splitlines()) == len(manifests)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_operators_pods_pass_where_restricted_is_enforced(cluster: Cluster, system: Kubectl, overlay: str) -> None:
    pod = pod_of(find(built(cluster, overlay), "Deployment", "konverge"), "probe")
    taken = system("create", "--dry-run=server", "--filename", "-", input=yaml.safe_dump(pod))
    assert "pod/probe created (server dry run)" in taken
    loose = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    refusal = system.refusal(
        lambda: system("create", "--dry-run=server", "--filename", "-", input=yaml.safe_dump(loose))
    )
    assert 'violates PodSecurity "restricted:latest": host namespaces' in refusal


def test_the_service_finds_the_port_and_the_policy_lets_it_through(cluster: Cluster) -> None:
    manifests = built(cluster, "overlays/prod")
    [container] = find(manifests, "Deployment", "konverge")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    labels = find(manifests, "Deployment", "konverge")["spec"]["template"]["metadata"]["labels"]
    for what, port_name in (("metrics", "metrics"), ("webhook", "webhooks")):
        service = find(manifests, "Service", f"konverge-{what}")
        assert service["spec"]["selector"].items() <= labels.items()
        [port] = service["spec"]["ports"]
        assert port["targetPort"] == port_name
        policy = find(manifests, "NetworkPolicy", f"konverge-allow-{what}")
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
        [rule] = policy["spec"]["ingress"]
        assert [each["port"] for each in rule["ports"]] == [ports[port_name]]
    assert "from" in find(manifests, "NetworkPolicy", "konverge-allow-metrics")["spec"]["ingress"][0]


def test_production_has_two_replicas_that_a_drain_takes_one_at_a_time(cluster: Cluster) -> None:
    manifests = built(cluster, "overlays/prod")
    deployment = find(manifests, "Deployment", "konverge")["spec"]
    budget = find(manifests, "PodDisruptionBudget", "konverge")["spec"]
    assert (deployment["replicas"], budget["minAvailable"]) == (2, 1)
    assert "--leader-elect" in deployment["template"]["spec"]["containers"][0]["args"]
    labels = deployment["template"]["metadata"]["labels"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    selectors = [budget["selector"], *(constraint["labelSelector"] for constraint in spread)]
    assert [selector["matchLabels"].items() <= labels.items() for selector in selectors] == [True] * 3


def test_certificates_are_those_that_are_mounted_trusted_and_scraped(cluster: Cluster) -> None:
    """One name wrong among these, and nothing says so until a write is refused."""
    manifests = built(cluster, "overlays/prod")
    volumes = find(manifests, "Deployment", "konverge")["spec"]["template"]["spec"]["volumes"]
    mounted = {volume["secret"]["secretName"] for volume in volumes if "secret" in volume}
    for what in ("webhook", "metrics"):
        certificate = find(manifests, "Certificate", f"konverge-{what}")["spec"]
        assert certificate["secretName"] in mounted
        assert f"konverge-{what}.{NAMESPACE}.svc" in certificate["dnsNames"]
        issuer: dict[str, Any] = find(manifests, "Issuer", certificate["issuerRef"]["name"])
        assert issuer["spec"]["ca"]["secretName"] == find(manifests, "Certificate", "konverge-ca")["spec"]["secretName"]
    for webhook in (each for each in manifests if each["kind"].endswith("WebhookConfiguration")):
        annotation = webhook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert annotation == f"{NAMESPACE}/konverge-webhook"
    [endpoint] = find(manifests, "ServiceMonitor", "konverge")["spec"]["endpoints"]
    tls = endpoint["tlsConfig"]
    assert tls["ca"]["secret"]["name"] == find(manifests, "Certificate", "konverge-metrics")["spec"]["secretName"]
    assert tls["serverName"] in find(manifests, "Certificate", "konverge-metrics")["spec"]["dnsNames"]
    assert (endpoint["scheme"], endpoint["port"]) == ("https", "https")


def test_the_flags_of_each_overlay_are_flags_of_the_command(cluster: Cluster) -> None:
    from konverge.cli.run import run  # noqa: PLC0415 - the command of the image

    for overlay in OVERLAYS:
        [container] = find(built(cluster, overlay), "Deployment", "konverge")["spec"]["template"]["spec"]["containers"]
        command, *flags = container["args"]
        assert command == "run"
        with run.make_context("run", flags) as context:
            assert context.params["leader_elect"], overlay
