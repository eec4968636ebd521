"""Where credentials are found, and what is said when they are not."""

import asyncio
import os
from pathlib import Path

import pytest

from konverge.errors import CredentialsError
from konverge.kube import kubeconfig as module
from konverge.kube.kubeconfig import InClusterSource, KubeconfigSource, find_source
from tests.unit.kube.serving import Plugin, write_kubeconfig

SERVER = "https://cluster.example:6443"


class Machine:
    """A machine with a home, a kubeconfig elsewhere, and perhaps a service account."""

    def __init__(self, root: Path) -> None:
        self.given = write_kubeconfig(root / "given", SERVER, {"token": "t"})
        self.named = write_kubeconfig(root / "named", SERVER, {"token": "t"})
        self.home = root / "home"
        self.account = root / "account"
        (self.home / ".kube").mkdir(parents=True)
        self.account.mkdir()

    @property
    def default(self) -> Path:
        return self.home / ".kube" / "config"

    def with_default(self) -> None:
        write_kubeconfig(self.default, SERVER, {"token": "t"})

    def with_account(self) -> None:
        for name, text in {"token": "pod-token\n", "ca.crt": "a certificate", "namespace": "operators"}.items():
            (self.account / name).write_text(text)

    def find(self, kubeconfig: str | None = None, context: str | None = None, **environ: str) -> object:
        return find_source(kubeconfig, context, environ=environ, service_account=self.account, home=self.home)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_flag_wins_over_everything(machine: Machine) -> None:
    machine.with_account()
    machine.with_default()
    assert machine.find(str(machine.given), "x", KUBECONFIG=str(machine.named)) == KubeconfigSource(
        str(machine.given), "x"
    )


def test_the_variable_wins_over_the_pod_and_may_name_several_files(machine: Machine) -> None:
    machine.with_account()
    both = f"{machine.home / 'absent'}{os.pathsep}{machine.named}"
    assert machine.find(KUBECONFIG=both) == KubeconfigSource(both)


def test_a_pod_wins_over_the_home_directory(machine: Machine) -> None:
    machine.with_default()
    assert machine.find() == KubeconfigSource(str(machine.default))
    machine.with_account()
    assert isinstance(machine.find(), InClusterSource)


def test_a_context_is_looked_for_in_kubeconfigs_only(machine: Machine) -> None:
    machine.with_account()
    machine.with_default()
    assert machine.find(context="x") == KubeconfigSource(str(machine.default), "x")


def test_a_file_that_was_asked_for_is_never_replaced_by_another_cluster(machine: Machine) -> None:
    machine.with_default()
    with pytest.raises(CredentialsError, match=r"--kubeconfig names /absent, and there is no such file"):
        machine.find("/absent")
    with pytest.raises(CredentialsError, match=r"KUBECONFIG names /absent"):
        machine.find(KUBECONFIG="/absent")


def test_finding_nothing_lists_what_was_tried_and_what_to_do(machine: Machine) -> None:
    with pytest.raises(CredentialsError) as caught:
        machine.find()
    message = str(caught.value)
    for part in (
        "--kubeconfig: not given",
        "KUBECONFIG: not set",
        "not a pod",
        str(machine.default),
        "konverge cluster up",
    ):
        assert part in message


async def test_a_context_gives_server_token_and_namespace(machine: Machine) -> None:
    loaded = await KubeconfigSource(str(machine.given)).load()
    assert loaded.configuration.host == SERVER
    assert loaded.namespace == "team"


async def test_paths_in_a_kubeconfig_are_relative_to_it(machine: Machine) -> None:
    (machine.given.parent / "ca.pem").write_text("a certificate")
    path = write_kubeconfig(machine.given, SERVER, {"token": "t"}, **{"certificate-authority": "ca.pem"})
    loaded = await KubeconfigSource(str(path)).load()
    assert Path(loaded.configuration.ssl_ca_cert) == machine.given.parent / "ca.pem"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "cannot be used"),
        ("", "cannot be used"),
        ("- a\n- b", "cannot be used"),
        ("{clusters: [], contexts: [], users: []}", "current-context"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: c}}], clusters: [{name: c, cluster: {}}]}",
            "cluster c has no `server`",
        ),
    ],
)
async def test_a_broken_kubeconfig_is_named_with_its_problem(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(CredentialsError) as caught:
        await KubeconfigSource(str(path)).load()
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


async def test_a_context_that_is_not_there_is_named(machine: Machine) -> None:
    with pytest.raises(CredentialsError, match="prod"):
        await KubeconfigSource(str(machine.given), "prod").load()


async def test_a_context_without_a_user_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, None)
    with pytest.raises(CredentialsError, match="context x names no user: nothing to authenticate with"):
        await KubeconfigSource(str(path)).load()


async def test_a_pod_knows_its_server_and_namespace(machine: Machine) -> None:
    machine.with_account()
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    loaded = await InClusterSource(machine.account, environ).load()
    assert (loaded.configuration.host, loaded.namespace) == ("https://10.0.0.1:443", "operators")


async def test_a_pod_without_its_environment_says_so(machine: Machine) -> None:
    machine.with_account()
    with pytest.raises(CredentialsError, match=r"service account in .*: Service host/port is not set"):
        await InClusterSource(machine.account, {}).load()


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("echo 'session expired, log in' >&2; exit 3", "failed with code 3: session expired, log in"),
        ("exit 1", "failed with code 1: it said nothing"),
        ("echo welcome", "printed what is not JSON"),
        ("echo '[]'", "printed no ExecCredential"),
        ("""echo '{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"t"}}'""", "speaks client"),
        ("""echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{}}'""", "printed neither `status.token`"),
        (
            """echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"c"}}'""",
            "printed neither `status.token`",
        ),
    ],
)
async def test_a_failing_plugin_is_reported_in_its_own_words(tmp_path: Path, output: str, problem: str) -> None:
    path = write_kubeconfig(tmp_path / "config", SERVER, Plugin(tmp_path, output).user)
    with pytest.raises(CredentialsError) as caught:
        await KubeconfigSource(str(path)).load()
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


async def test_a_plugin_that_is_not_installed_is_named_with_its_hint(tmp_path: Path) -> None:
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/absent/login",
            "installHint": "get it at X",
        }
    }
    path = write_kubeconfig(tmp_path / "config", SERVER, user)
    with pytest.raises(CredentialsError, match=r"/absent/login cannot be started: .*; get it at X"):
        await KubeconfigSource(str(path)).load()


async def test_a_plugin_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLUGIN_TIMEOUT", 0.05)
    path = write_kubeconfig(tmp_path / "config", SERVER, Plugin(tmp_path, "exec sleep 600").user)
    with pytest.raises(CredentialsError, match=r"did not finish in 0\.05 s"):
        await KubeconfigSource(str(path)).load()


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    output = """echo '{"apiVersion":"client.authentication.k8s.io/v1","status":{"clientCertificateData":"c","clientKeyData":"k"}}'"""
    path = write_kubeconfig(tmp_path / "config", SERVER, Plugin(tmp_path, output).user)
    configuration = (await KubeconfigSource(str(path)).load()).configuration
    files = [Path(configuration.cert_file), Path(configuration.key_file)]
    assert [await asyncio.to_thread(file.read_text) for file in files] == ["c", "k"]
